"""Formulas of recurrent layers: an LSTM, a GRU or a plain recurrent layer, written out by its positions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workers.mutation_testing.builder import GraphBuilder
from workers.protocol import Node
from workers.protocol.graph import Value

MOST_POSITIONS = 32
"""Maximum number of positions, over all layers and directions, that are written out; each takes a dozen operations."""


@dataclass(frozen=True)
class _Cell:
    """One layer in one direction: weights as in torch, (gates x hidden, inputs) and (gates x hidden, hidden)."""

    draft: GraphBuilder
    hidden: int
    weight: Value
    weight_hidden: Value
    biases: Sequence[Value]

    def call(self, op: str, *args: Value) -> Value:
        """Append a call."""
        return self.draft.call(op, *args)

    def gates(self, value: Value, weight: Value, number: int) -> Value:
        """Append the part of all gates that one vector gives, (rows, gates x hidden), with its bias."""
        product = self.call("mm.default", value, self.call("t.default", weight))
        return self.call("add.Tensor", product, self.biases[number]) if self.biases else product

    def gate(self, gates: Value, number: int) -> Value:
        """Append one gate of all."""
        return self.draft.cut(gates, 1, number * self.hidden, (number + 1) * self.hidden)


def _lstm(cell: _Cell, value: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    before, carried = states
    given, kept = cell.gates(value, cell.weight, 0), cell.gates(before, cell.weight_hidden, 1)
    gates = cell.call("add.Tensor", given, kept)
    enters, stays, leaves = (cell.call("sigmoid.default", cell.gate(gates, number)) for number in (0, 1, 3))
    fresh = cell.call("mul.Tensor", enters, cell.call("tanh.default", cell.gate(gates, 2)))
    carried = cell.call("add.Tensor", cell.call("mul.Tensor", stays, carried), fresh)
    return cell.call("mul.Tensor", leaves, cell.call("tanh.default", carried)), carried


def _gru(cell: _Cell, value: Value, states: Sequence[Value]) -> tuple[Value, ...]:
    before = states[0]
    given, kept = cell.gates(value, cell.weight, 0), cell.gates(before, cell.weight_hidden, 1)
    reset, update = (
        cell.call("sigmoid.default", cell.call("add.Tensor", cell.gate(given, number), cell.gate(kept, number)))
        for number in (0, 1)
    )
    remembered = cell.call("mul.Tensor", reset, cell.gate(kept, 2))
    fresh = cell.call("tanh.default", cell.call("add.Tensor", cell.gate(given, 2), remembered))
    change = cell.call("mul.Tensor", update, cell.call("sub.Tensor", before, fresh))
    return (cell.call("add.Tensor", fresh, change),)


def _plain(activation: str) -> "Step":
    def step(cell: _Cell, value: Value, states: Sequence[Value]) -> tuple[Value, ...]:
        given, kept = cell.gates(value, cell.weight, 0), cell.gates(states[0], cell.weight_hidden, 1)
        return (cell.call(activation, cell.call("add.Tensor", given, kept)),)

    return step


Step = Callable[[_Cell, Value, Sequence[Value]], tuple[Value, ...]]
"""Function that appends one position: from its vector and the states before to the states behind, the result first."""
_STEPS: Mapping[str, Step] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _plain("tanh.default"),
    "rnn_relu": _plain("relu.default"),
}


@dataclass(frozen=True)
class _Layers:
    """A call of recurrent layers that can be written out.

    Attributes:
        source: The input.
        states: The states before the first position, (layers x directions, rows, hidden).
        cells: The weights and biases of each layer and direction.
        positions: Number of positions.
        hidden: Size of a state.
        directions: 2 if every layer also runs backwards.
        batch_first: True if positions are the second axis.
    """

    source: Value
    states: Sequence[Value]
    cells: Sequence[Sequence[Value]]
    positions: int
    hidden: int
    directions: int
    batch_first: bool

    @classmethod
    def read(cls, draft: GraphBuilder, node: Node) -> "_Layers | None":
        """Read a call. Returns None if it has many positions, projections or narrow values."""
        source, states, weights, has_biases, layers, _, _, bidirectional, batch_first = node.args
        before = states if isinstance(states, tuple | list) else (states,)
        form, state = draft.form(source), draft.form(before[0])
        count = (layers if isinstance(layers, int) else 0) * (2 if bidirectional else 1)
        per_cell = 4 if has_biases else 2
        if form is None or state is None or form.is_half or not isinstance(weights, tuple | list):
            return None
        positions = form.shape[1 if batch_first else 0]
        if positions * count > MOST_POSITIONS or len(weights) != per_cell * count:
            return None
        cells = [weights[number * per_cell : (number + 1) * per_cell] for number in range(count)]
        return cls(source, before, cells, positions, state.shape[-1], 2 if bidirectional else 1, bool(batch_first))


def written_by_positions(draft: GraphBuilder, node: Node) -> Value | None:
    """Write out a recurrent layer. Returns None if it has many positions, projections or narrow values."""
    layers = _Layers.read(draft, node)
    if layers is None:
        return None
    source = draft.call("transpose.int", layers.source, 0, 1) if layers.batch_first else layers.source
    inputs: list[Value] = [draft.call("select.int", source, 0, position) for position in range(layers.positions)]
    last: list[tuple[Value, ...]] = []
    for first in range(0, len(layers.cells), layers.directions):
        sides = []
        for side in range(layers.directions):
            weight, weight_hidden, *biases = layers.cells[first + side]
            cell = _Cell(draft, layers.hidden, weight, weight_hidden, biases)
            begin = tuple(draft.call("select.int", state, 0, first + side) for state in layers.states)
            turn = -1 if side else 1
            results, end = _run(cell, _STEPS[node.name], inputs[::turn], begin)
            sides.append(results[::turn])
            last.append(end)
        both = len(sides) > 1
        inputs = [draft.call("cat.default", pair, 1) for pair in zip(*sides, strict=True)] if both else sides[0]
    stacked = draft.call("stack.default", tuple(inputs), 1 if layers.batch_first else 0)
    ends = (draft.call("stack.default", tuple(end[index] for end in last), 0) for index in range(len(last[0])))
    return (stacked, *ends)


def _run(
    cell: _Cell, step: Step, inputs: Sequence[Value], states: tuple[Value, ...]
) -> tuple[list[Value], tuple[Value, ...]]:
    """Append all positions of a cell. Returns the results and the last states."""
    results = []
    for value in inputs:
        states = step(cell, value, states)
        results.append(states[0])
    return results, states
