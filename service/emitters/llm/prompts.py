"""Prompts of the strategies: made from a context, and asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archive.descriptors import DESCRIPTORS
from service.emitters.base import LlmContext, Parent, ProposalContext
from service.emitters.llm.rendering import VERSION, PromptWriter, RenderedPrompt, write
from service.emitters.llm.strategies import AGENTIC, EXPLORE, Approach
from service.emitters.rules import rules_for
from service.evaluation.figure_labels import provenance, relative_to
from service.llm.base import LlmAnswer, LlmPrompt, Purpose
from workers.protocol import CardSheet, Distribution, Input, Operator, Output, Scalar
from workers.targets import TARGETS, shown_figures

OPERATOR, DEVICE, API, KERNELS, BEST = "Operator", "Device", "Triton", "Kernels", "Best so far"
CELL, MOVES, CHANGES, NEIGHBOURS = "Cell to fill", "Known moves", "Changes tried so far", "Neighbouring cells"
FAILURES, UNDER_WAY, HINTS = "What failed lately", "Under way elsewhere", "Hints"
CONVERSATION, REQUEST = "The conversation so far", "Request"
HEADINGS = (
    *(OPERATOR, DEVICE, API, KERNELS, BEST, CELL, MOVES, CHANGES, NEIGHBOURS, FAILURES, UNDER_WAY, HINTS),
    *(CONVERSATION, REQUEST),
)
"""Headings of a prompt, in their order."""

RANKS = {DEVICE: 10, HINTS: 30, API: 60, CHANGES: 100, FAILURES: 200, MOVES: 240, UNDER_WAY: 260, NEIGHBOURS: 400}
"""Ranks of sections: the largest is dropped first if a prompt is too long, its last items first."""
TIMES_RANK, TURN_RANK, BEST_SOURCE_RANK = 12, 50, 300
"""Ranks of a kernel's times, of the earlier turns of a conversation, and of the best kernel's source."""
SUPPORTED = "3.6 to 3.9"
"""Releases of Triton that may compile a candidate if none is known yet."""
BLOCK_POINTERS = "block_pointers"
"""Rule whose words later releases of Triton do not know."""
WITH_MOVES = ("improve", "explore", "agentic")
"""Strategies that work on one kernel, whose prompts name the rewriting rules that match it."""
ORDERS = {
    Distribution.SORTED: "each row sorted, from {low} to below {high}",
    Distribution.OFFSETS: "offsets of segments in each row: the first is 0, none falls, the last is {high}; some are "
    "empty",
    Distribution.ENDS: "ends of segments in each row: none falls, the last is {high}; some segments are empty",
    Distribution.STARTS: "starts of segments in each row: the first is 0, none falls, and the last segment ends at "
    "{high}; some are empty",
    Distribution.COUNTS: "lengths of segments in each row, 0 or more, whose sum is {high}",
    Distribution.UNIQUE: "different values in each row, from {low} to below {high}",
}
"""Descriptions of ordered values."""
MOST_MOVES = 12
"""Maximum number of rules in a prompt."""


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
    page = {**_api(context, operator, found), "gluon": _takes_gluon(llm)}
    writer.add(API, RANKS[API], "api", page)
    _kernels(writer, found, figures)
    _best(writer, llm, found, figures)
    if found.strategy in WITH_MOVES and found.parents:
        known = rules_for(context.compilers).values()
        rules = [rule for rule in known if rule.applies(found.parents[0].source)][:MOST_MOVES]
        if rules:
            writer.add(MOVES, RANKS[MOVES], "moves", {"rules": rules})
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
    return writer.prompt(_system(operator, gluon=_takes_gluon(llm)), HEADINGS)


def _takes_gluon(llm: LlmContext) -> bool:
    """Return True if kernels in Gluon can be judged: `model` devices do not interpret them."""
    return not llm.device.startswith("model:")


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


def _system(operator: Operator, *, gluon: bool) -> str:
    arguments = [item.name for item in operator.inputs] + [item.name for item in operator.scalars]
    values = {
        "entry": operator.entry,
        "gluon": gluon,
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
        {"name": item.name, "shape": item.shape, "dtype": item.dtype, "bounds": _bounds(item)}
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
        "notes": _notes(operator),
    }


def _notes(operator: Operator) -> list[str]:
    """Describe sizes without a range, and numbers that never change and may be compiled in."""
    fixed = [name for name in operator.dimensions if name not in operator.ranges]
    sizes = {name: sorted({shape.dims[name] for shape in operator.shapes}) for name in fixed}
    said = [f"`{name}` is always {' or '.join(map(str, found))}." for name, found in sizes.items()]
    constants = [f"`{item.name}` = {item.value}" for item in operator.scalars if not isinstance(item.value, str)]
    if constants:
        said.append(f"Passed with the same value in every call: {', '.join(constants)}.")
    return said


def _bounds(item: Input) -> str:
    """Describe the values that an input may have, if the spec bounds them, and if it may be absent."""
    exact = "int" in item.dtype
    low, high = (int(end) if exact and isinstance(end, float) else end for end in (item.low or 0, item.high))
    order = ORDERS.get(item.distribution or Distribution.NORMAL, "values from {low} to below {high}")
    said = ["" if high is None else order.format(low=low, high=high), "or None" if item.optional else ""]
    return ", ".join(filter(None, said))


def _kernels(writer: PromptWriter, found: Approach, figures: Mapping[str, str]) -> None:
    timed = [number for number, kernel in enumerate(found.parents, start=1) if kernel.times]
    for number, kernel in enumerate(found.parents, start=1):
        values = {"title": f"Kernel {number}", "kernel": kernel, "legend": [number] == timed[-1:], **figures}
        writer.add(KERNELS, 0, "kernel", values)
        writer.add(KERNELS, 0, "verdict", values)
        if kernel.times:
            writer.add(KERNELS, TIMES_RANK, "times", values)


def _best(writer: PromptWriter, llm: LlmContext, found: Approach, figures: Mapping[str, str]) -> None:
    """Add the best kernel so far: its figure always, its source where there is room and the prompt has it nowhere."""
    best = llm.best
    if best is None or best.objective is None:
        return
    number = next((n for n, kernel in enumerate(found.parents, start=1) if kernel.candidate == best.candidate), 0)
    shown = f"Kernel {number}" if number else ""
    writer.add(BEST, 0, "best", {"kernel": best, "shown": shown, **figures})
    if not number:
        writer.add(BEST, BEST_SOURCE_RANK, "best_source", {"kernel": best})


def _api(context: ProposalContext, operator: Operator, found: Approach) -> Mapping[str, Any]:
    """Choose the parts of the page on Triton that concern the operator, the target and the bottleneck."""
    target = TARGETS[context.target]
    bounds = {item.bound for kernel in found.parents for item in kernel.times}
    sources = [*operator.seeds, *(kernel.source for kernel in found.parents)]
    dtypes = {item.dtype for item in operator.inputs} | {item.dtype for item in operator.outputs}
    major = target.capability[0]
    return {
        "triton": " or ".join(context.compilers) or SUPPORTED,
        "block_pointers": BLOCK_POINTERS in rules_for(context.compilers),
        "target": context.target,
        "nvidia": target.vendor == "nvidia",
        "bulk": major >= 9,
        "hopper": major == 9,
        "blackwell": major == 10,
        "matrix": any("tl.dot" in source for source in sources),
        "fp8": any(dtype.startswith("float8") for dtype in dtypes),
        "single": any(item.dtype == "float32" for item in operator.inputs),
        "memory": not bounds or "memory" in bounds,
        "latency": "latency" in bounds,
    }


def _surroundings(writer: PromptWriter, llm: LlmContext, figures: Mapping[str, str]) -> None:
    near: list[Parent] = [kernel for kernel in llm.neighbours if kernel.objective is not None]
    for number, kernel in enumerate(near):
        writer.add(NEIGHBOURS, RANKS[NEIGHBOURS] + number, "neighbour", {"kernel": kernel, **figures})
    for number, kernel in enumerate(llm.failures):
        writer.add(FAILURES, RANKS[FAILURES] + number, "failure", {"kernel": kernel})
    for number, hint in enumerate(llm.hints):
        writer.add(HINTS, RANKS[HINTS] + number, "hint", {"text": hint})
    for number, change in enumerate(llm.changes):
        writer.add(CHANGES, RANKS[CHANGES] + number, "change", {"item": change, **figures})
    for number, said in enumerate(llm.under_way):
        writer.add(UNDER_WAY, RANKS[UNDER_WAY] + number, "under_way", {"text": said})
