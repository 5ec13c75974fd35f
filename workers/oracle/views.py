"""Views of a run for the oracle: its results, its inputs after the run, and its inputs made again."""

from collections.abc import Mapping, Sequence
from math import prod

import torch

from workers.checks import CheckEvidence, Expectation
from workers.commands import TIMED
from workers.errors import BadMessage
from workers.inputs import draw
from workers.oracle.base import OracleCard, OracleSubject, PlanRun, Tensors
from workers.protocol import Operator, Shape, View


def outputs(card: OracleCard, runs: Sequence[PlanRun]) -> list[Tensors]:
    """Return the results of each of several runs; all runs of one plan at once."""
    alike: dict[int, list[int]] = {}
    for index, run in enumerate(runs):
        alike.setdefault(id(run.plan), []).append(index)
    found: dict[int, Tensors] = {}
    for indices in alike.values():
        views = runs[indices[0]].plan.outputs
        found |= zip(indices, look(card, views, [runs[index] for index in indices]), strict=True)
    return [found[index] for index in range(len(runs))]


def inputs_after(card: OracleCard, operator: Operator, run: PlanRun) -> Tensors:
    """Return the inputs of a run as it left them."""
    return look(card, input_views(operator, run.plan.shape), [run])[0]


def look(card: OracleCard, views: Sequence[View], runs: Sequence[PlanRun]) -> list[Tensors]:
    """Return views of the buffers of each of several runs."""
    columns = [card.views(view, [run.slot.buffers[view.buffer] for run in runs]) for view in views]
    return list(zip(*columns, strict=True)) if columns else [()] * len(runs)


def inputs_before(card: OracleCard, operator: Operator, run: PlanRun) -> Tensors:
    """Return the inputs of a run, made again."""
    content, shape = run.content, run.plan.shape
    if content.draw == TIMED:
        return timed_inputs(card, operator, shape, content.seed, [content.stream])[content.stream]
    return draw(operator, shape, content.draw, bytes.fromhex(content.seed), device=card.device)


def timed_inputs(
    card: OracleCard, operator: Operator, shape: Shape, seed: str, streams: Sequence[int]
) -> Mapping[int, Tensors]:
    """Return timed content by stream."""
    contents = {stream: _blank(card, operator, shape) for stream in streams}
    card.fill(operator, shape, seed, contents)
    return contents


def give_evidence(card: OracleCard, subject: OracleSubject, run: PlanRun, inputs: Tensors) -> CheckEvidence:
    """Return the evidence about a run on `inputs`.

    Raises:
        BadMessage: If there is no reference for its shape.
    """
    return CheckEvidence(
        operator=subject.operator,
        shape=run.plan.shape,
        draw=run.content.draw,
        inputs=inputs,
        inputs_after=inputs_after(card, subject.operator, run),
        outputs=outputs(card, [run])[0],
        reference=expect(subject, run, inputs),
        overwritten=run.plan.overwritten,
    )


def expect(subject: OracleSubject, run: PlanRun, inputs: Tensors) -> Expectation:
    """Return the reference's results on the inputs of a run.

    Raises:
        BadMessage: If there is no reference for its shape.
    """
    graph = subject.graphs.get(run.plan.shape.key)
    if graph is None:
        raise BadMessage(f"there is no reference for {run.plan.shape.key}")
    return Expectation(subject.operator, graph, inputs, run.content.draw)


def input_views(operator: Operator, shape: Shape) -> tuple[View, ...]:
    """Return views of the inputs: contiguous at the start of their buffers, which come first in a plan."""
    views = []
    for number, item in enumerate(operator.given):
        sizes = operator.input_shape(item, shape.dims)
        strides = tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        views.append(View(buffer=number, shape=sizes, strides=strides, dtype=item.dtype))
    return tuple(views)


def _blank(card: OracleCard, operator: Operator, shape: Shape) -> Tensors:
    return tuple(
        torch.empty(operator.input_shape(item, shape.dims), dtype=getattr(torch, item.dtype), device=card.device)
        for item in operator.given
    )
