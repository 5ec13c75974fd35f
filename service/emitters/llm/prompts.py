"""Prompts of the strategies: made from a context, and asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archive.descriptors import DESCRIPTORS
from service.emitters.base import LlmContext, Parent, ProposalContext
from service.emitters.llm.rendering import VERSION, PromptWriter, RenderedPrompt, write
from service.emitters.llm.strategies import AGENTIC, EXPLORE, Approach
from service.evaluation.figure_labels import provenance, relative_to
from service.llm.base import LlmAnswer, LlmPrompt, Purpose
from workers.protocol import CardSheet, Input, Operator, Output, Scalar
from workers.targets import shown_figures

OPERATOR, DEVICE, KERNELS, CELL = "Operator", "Device", "Kernels", "Cell to fill"
NEIGHBOURS, FAILURES, HINTS = "Neighbouring cells", "What failed lately", "Hints"
CONVERSATION, REQUEST = "The conversation so far", "Request"
HEADINGS = (OPERATOR, DEVICE, KERNELS, CELL, NEIGHBOURS, FAILURES, HINTS, CONVERSATION, REQUEST)
"""Headings of a prompt, in their order."""

RANKS = {DEVICE: 10, HINTS: 100, FAILURES: 200, NEIGHBOURS: 400}
"""Ranks of sections: the largest is dropped first if a prompt is too long, its last items first."""
TIMES_RANK, TURN_RANK = 12, 50
"""Ranks of a kernel's times, and of the earlier turns of a conversation."""


@dataclass(frozen=True)
class ToolFeedback:
    """Feedback on one answer of a conversation: a template and its values."""

    template: str
    values: Mapping[str, Any]


def prompt(
    context: ProposalContext,
    llm: LlmContext,
    found: Approach,
    *,
    turns: Sequence[ToolFeedback] = (),
    step: int = 0,
    steps: int = 1,
) -> RenderedPrompt:
    """Write the prompt of an approach.

    Args:
        context: Context of the proposal.
        llm: Further context for language models.
        found: The approach.
        turns: Feedback on earlier answers of the conversation; the last ones are the most useful.
        step: Number of this answer, from 0.
        steps: Maximum number of answers.
    """
    operator = Operator.model_validate(context.operator)
    figures = {"provenance": provenance(llm.device), "relative_to": relative_to(llm.device)}
    writer = PromptWriter()
    writer.add(OPERATOR, 0, "operator", _operator(operator))
    writer.add(DEVICE, RANKS[DEVICE], "device", {"target": shown_figures(context.target, _card(context))})
    _kernels(writer, found, figures)
    if llm.cell is not None and found.strategy == EXPLORE:
        axes = [DESCRIPTORS[part.partition(":")[0]] for part in llm.place.split("; ")]
        writer.add(CELL, 0, "cell", {"place": llm.place, "meanings": axes})
    _surroundings(writer, llm, figures)
    for number, turn in enumerate(turns, start=1):
        rank = 0 if number == len(turns) else TURN_RANK + len(turns) - number
        writer.add(CONVERSATION, rank, turn.template, {"number": number, **figures, **turn.values})
    subject = "the kernel that was judged or shown last" if found.strategy == AGENTIC else "kernel 1"
    values = {"place": llm.place, "most": llm.most, "step": step, "steps": steps, "subject": subject}
    writer.add(REQUEST, 0, found.strategy, values)
    return writer.prompt(_system(operator), HEADINGS)


def _card(context: ProposalContext) -> CardSheet | None:
    """Return the card that the parents were measured on; None if none was."""
    return next((parent.card for parent in context.parents if parent.card is not None), None)


async def ask(
    context: ProposalContext,
    llm: LlmContext,
    found: Approach,
    *,
    turns: Sequence[ToolFeedback] = (),
    step: int = 0,
    steps: int = 1,
) -> LlmAnswer:
    """Ask the prompt of an approach, as step `step` of at most `steps`.

    Raises:
        BackendError: If no answer came.
    """
    rendered = prompt(context, llm, found, turns=turns, step=step, steps=steps)
    purpose = Purpose(
        search=llm.search,
        ordinal=llm.ordinal,
        step=step,
        strategy=found.strategy,
        template=f"{found.strategy}/{VERSION}",
        claims=rendered.claims,
        parents=tuple(parent.candidate for parent in found.parents if parent.candidate),
        cell=found.cell,
    )
    return await llm.ask(LlmPrompt(rendered.system, rendered.user), purpose, found.backend)


def _system(operator: Operator) -> str:
    arguments = [item.name for item in operator.inputs] + [item.name for item in operator.scalars]
    values = {
        "entry": operator.entry,
        "arguments": ", ".join(arguments),
        "outputs": [f"`{item.name}` ({item.dtype})" for item in operator.outputs],
        "backward": _backward(operator),
        "copies": operator.policy.host == "copy",
        "mutable": [f"`{item.name}`" for item in operator.inputs if item.mutable],
        "accumulate": operator.precision.accumulate,
        "tf32": operator.precision.allow_tf32,
    }
    return write("system", values)


def _backward(operator: Operator) -> Mapping[str, Any] | None:
    """Describe the function for gradients, if the operator has one: its name, arguments and results."""
    if not operator.backward:
        return None
    given: tuple[Input | Output | Scalar, ...] = (*operator.upstream, *operator.inputs, *operator.outputs)
    given += operator.scalars
    gradients = operator.results[len(operator.outputs) :]
    return {
        "entry": operator.backward_entry,
        "arguments": ", ".join(item.name for item in given),
        "results": [f"`{item.name}` ({item.dtype})" for item in gradients],
    }


def _operator(operator: Operator) -> Mapping[str, Any]:
    inputs = [
        {"name": item.name, "shape": item.shape, "dtype": item.dtype, "bounds": _bounds(item.low, item.high)}
        for item in operator.given
    ]
    shapes = [
        {"words": ", ".join(f"{name} = {size}" for name, size in shape.dims.items()), "weight": f"{shape.weight:g}"}
        for shape in operator.shapes
    ]
    return {
        "name": operator.name,
        "inputs": inputs,
        "scalars": operator.scalars,
        "outputs": operator.results,
        "shapes": shapes,
        "ranges": [f"{name} from {low} to {high}" for name, (low, high) in operator.ranges.items()],
        "reference": operator.reference,
    }


def _bounds(low: object, high: object) -> str:
    """Describe the values that an input may have, if the spec bounds them."""
    return "" if high is None else f"values from {0 if low is None else low} to below {high}"


def _kernels(writer: PromptWriter, found: Approach, figures: Mapping[str, str]) -> None:
    for number, kernel in enumerate(found.parents, start=1):
        values = {"title": f"Kernel {number}", "kernel": kernel, **figures}
        writer.add(KERNELS, 0, "kernel", values)
        writer.add(KERNELS, 0, "verdict", values)
        if kernel.times:
            writer.add(KERNELS, TIMES_RANK, "times", values)


def _surroundings(writer: PromptWriter, llm: LlmContext, figures: Mapping[str, str]) -> None:
    near: list[Parent] = [kernel for kernel in llm.neighbours if kernel.objective is not None]
    for number, kernel in enumerate(near):
        writer.add(NEIGHBOURS, RANKS[NEIGHBOURS] + number, "neighbour", {"kernel": kernel, **figures})
    for number, kernel in enumerate(llm.failures):
        writer.add(FAILURES, RANKS[FAILURES] + number, "failure", {"kernel": kernel})
    for number, hint in enumerate(llm.hints):
        writer.add(HINTS, RANKS[HINTS] + number, "hint", {"text": hint})
