"""Mutations of a graph's inputs and outputs: elements not read, not written, moved, or made harmless."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch

from workers.float8 import is_float8
from workers.inputs import takes_specials
from workers.mutation_testing.builder import GraphBuilder, TensorForm, TypedGraph, named, rewrite
from workers.mutation_testing.mutants.reductions import TILE
from workers.protocol import Distribution, Graph, Input, InputRef, Node, NodeRef, Output
from workers.protocol.distribution import PARTITIONS, segments_in
from workers.protocol.extent import size_of
from workers.protocol.graph import Value

SCALE = 1.001
"""Factor that rounding to bfloat16 hides in every single element, but not over many."""
FLOAT8_SCALE = 1.01
"""Factor that rounding to float8 hides in most elements, but not over many."""
FADED = 1 / 16
"""Share of its row's largest value below which a float8 is lost: a sixth of normal values, and half of its digits."""

Spoiled: TypeAlias = Callable[[GraphBuilder, Value], Value]
"""Function that appends the nodes that spoil a tensor."""


@dataclass(frozen=True)
class BoundaryMutation:
    """One way to spoil an input or an output."""

    name: str
    spoil: Spoiled


def input_mutants(sketch: TypedGraph, position: int, item: Input) -> Iterator[tuple[str, Callable[[], Graph | None]]]:
    """Yield graphs that read one input wrongly, by name; none of an empty or absent input."""
    form = sketch.forms[InputRef(input=position)]
    if 0 in form.shape:
        return
    harmless = _harmless(form) if takes_specials(item) else ()
    for boundary in (
        *_ignored(form),
        *_taken_for_plain(form, item, sketch.graph.shape.dims),
        *_moved(form),
        *harmless,
        *_at_ends(form, 0.0),
    ):
        yield f"input '{item.name}': {boundary.name}", partial(_with_input, sketch, position, boundary.spoil)


def output_mutants(sketch: TypedGraph, number: int, item: Output) -> Iterator[tuple[str, Callable[[], Graph | None]]]:
    """Yield graphs that write one output wrongly, by name."""
    ref = sketch.graph.outputs[number]
    form = sketch.forms[ref]
    never_written = [BoundaryMutation(f"{b.name}, left as it was", b.spoil) for b in _at_ends(form, float("nan"))]
    for boundary in (*_moved(form), *_harmless(form), *_at_ends(form, 0.0), *(never_written if form.is_float else ())):
        yield f"output '{item.name}': {boundary.name}", partial(_with_output, sketch, number, boundary.spoil)
    if form.is_float:
        scale = FLOAT8_SCALE if is_float8(form.dtype) else SCALE
        yield f"output '{item.name}': scaled by {scale}", partial(_scaled, sketch, number, scale)
    if is_float8(form.dtype) and form.shape:
        yield f"output '{item.name}': small values of a row lost", partial(before_rounding, sketch, number, _faded)


def _ignored(form: TensorForm) -> Iterator[BoundaryMutation]:
    yield BoundaryMutation("ignored, zeros instead", lambda draft, value: draft.call("zeros_like.default", value))
    if form.is_float:
        yield BoundaryMutation("ignored, ones instead", lambda draft, value: draft.call("ones_like.default", value))


def _taken_for_plain(form: TensorForm, item: Input, dims: Mapping[str, int]) -> Iterator[BoundaryMutation]:
    """Yield the values that kernels guess instead of reading ordered ones."""
    if item.distribution not in PARTITIONS | {Distribution.UNIQUE}:
        return
    high = size_of(item.high, dims) if isinstance(item.high, str) else int(item.high or 0)
    count, low = form.shape[-1], int(item.low or 0)
    if item.distribution is Distribution.UNIQUE:
        yield BoundaryMutation(
            "ignored, in order instead", partial(_counted, form=form, start=low, total=count, parts=count)
        )
    elif item.distribution is Distribution.COUNTS:
        equal = partial(_counted, form=form, start=high // count, total=0, parts=1)
        yield BoundaryMutation("ignored, equal segments instead", equal)
    else:
        segments = segments_in(item.distribution, count)
        start = high // segments if item.distribution is Distribution.ENDS else 0
        equal = partial(_counted, form=form, start=start, total=high, parts=segments)
        yield BoundaryMutation("ignored, equal segments instead", equal)


def _counted(draft: GraphBuilder, _: Value, form: TensorForm, start: int, total: int, parts: int) -> NodeRef:
    """Append `start + number * total // parts` along the last axis."""
    numbers = draft.call("mul.Tensor", draft.call("arange.default", form.shape[-1]), total)
    values = draft.call("add.Tensor", draft.call("floor_divide.default", numbers, parts), start)
    return draft.call("expand.default", draft.cast(values, form.dtype), form.shape)


def _moved(form: TensorForm) -> Iterator[BoundaryMutation]:
    if form.shape and form.shape[-1] > 1:
        axis = len(form.shape) - 1
        yield BoundaryMutation(
            "off by one along its rows", lambda draft, value: draft.call("roll.default", value, (1,), (axis,))
        )


def _harmless(form: TensorForm) -> Iterator[BoundaryMutation]:
    if form.is_float:
        yield BoundaryMutation("NaN swallowed", _without_nan)
        yield BoundaryMutation("infinities swallowed", partial(_clamped, limit=torch.finfo(form.dtype).max))


def _without_nan(draft: GraphBuilder, value: Value) -> NodeRef:
    return draft.call("masked_fill.Scalar", value, draft.call("isnan.default", value), 0.0)


def _clamped(draft: GraphBuilder, value: Value, limit: float) -> NodeRef:
    return draft.call("clamp.default", value, -limit, limit)


def _at_ends(form: TensorForm, filling: float) -> Iterator[BoundaryMutation]:
    """Yield mutations that fill the last element, or the last tile, of every axis."""
    for axis, size in enumerate(form.shape):
        for name, count in (("element", 1), ("tile", (size - 1) % TILE + 1 if size > TILE else 0)):
            if 0 < count < size:
                fill = partial(_filled, axis=axis, form=form, count=count, filling=filling)
                yield BoundaryMutation(f"last {name} of axis {axis} left out", fill)


def _filled(draft: GraphBuilder, value: Value, axis: int, form: TensorForm, count: int, filling: float) -> NodeRef:
    padding = [0] * (2 * (len(form.shape) - axis))
    padding[-1] = count
    kept = draft.cut(value, axis, 0, form.shape[axis] - count)
    return draft.call("constant_pad_nd.default", kept, tuple(padding), filling if form.is_float else 0)


def _with_input(sketch: TypedGraph, position: int, spoil: Spoiled) -> Graph:
    draft = GraphBuilder(sketch)
    draft.replace_input(position, spoil(draft, InputRef(input=position)))
    return rewrite(sketch, draft=draft)


def _with_output(sketch: TypedGraph, number: int, spoil: Spoiled) -> Graph:
    draft = GraphBuilder(sketch)
    graph = rewrite(sketch, draft=draft)
    return _replaced(graph, draft, number, spoil(draft, graph.outputs[number]))


def _replaced(graph: Graph, draft: GraphBuilder, number: int, value: Value) -> Graph:
    outputs = (*graph.outputs[:number], value, *graph.outputs[number + 1 :])
    return graph.model_copy(update={"nodes": tuple(draft.nodes), "outputs": outputs})


def _scaled(sketch: TypedGraph, number: int, scale: float) -> Graph | None:
    """Scale before the last rounding, if there is one: after it, the factor would be lost."""
    form = sketch.forms[sketch.graph.outputs[number]]
    spoil = before_rounding if form.is_half else _with_output
    return spoil(sketch, number, lambda draft, value: draft.call("mul.Tensor", value, scale))


def _faded(draft: GraphBuilder, value: Value) -> NodeRef:
    size = draft.call("abs.default", value)
    least = draft.call("mul.Tensor", draft.call("amax.default", size, (-1,), True), FADED)
    return draft.call("masked_fill.Scalar", value, draft.call("lt.Tensor", size, least), 0.0)


def before_rounding(sketch: TypedGraph, number: int, spoil: Spoiled) -> Graph | None:
    """Return a graph that spoils an output before its last rounding; None if there is none."""
    form = sketch.forms[sketch.graph.outputs[number]]
    last = last_rounding(sketch, number)
    if last is None:
        return None

    def change(draft: GraphBuilder, node: Node, index: int) -> Value | None:
        if index != last:
            return None
        return draft.cast(spoil(draft, node.args[0]), form.dtype)

    return rewrite(sketch, change)


def last_rounding(sketch: TypedGraph, number: int) -> int | None:
    """Return the node that rounds an output to its dtype; None if the output is moved, not computed."""
    ref: Value = sketch.graph.outputs[number]
    while isinstance(ref, NodeRef):
        node = sketch.graph.nodes[ref.node]
        if node.name == "_to_copy":
            source = sketch.forms.get(node.args[0]) if isinstance(node.args[0], NodeRef | InputRef) else None
            return ref.node if source is not None and source.is_float and not source.is_half else None
        ref = node.args[0] if node.name in PASSAGES and node.args else None
    return None


PASSAGES = named(
    """
    view _unsafe_view expand permute transpose t squeeze unsqueeze clone contiguous alias relu neg abs clamp clamp_min
    clamp_max
    """
)
"""Operations of one tensor that lead from an output to its last rounding."""
