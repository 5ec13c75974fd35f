"""Recurrent layers, which TorchInductor leaves to a library: one launch of our own kernel per position.

The product of the first layer's inputs is one matrix product over all positions. What remains is a *chain* per layer
and direction: each position needs the state of the one before. Chains of one layer's two directions are computed side
by side. Stacked layers of one direction are, too: at launch w layer l computes position w - l, from the layer below at
the same position, which the launch before computed.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import torch

from workers.inductor_seeds.folding import fold
from workers.inductor_seeds.operations import NAMESPACE
from workers.inductor_seeds.runtime import count_blocks
from workers.tracer.recurrent import GATES
from workers.tracer.recurrent import NAMESPACE as LAYERS

RECURRENCE = f"torch.ops.{NAMESPACE}.recurrence.default"
"""Name of the operation in Inductor's host code."""
_SCHEMA = (
    "(Tensor gates, Tensor h, Tensor c, Tensor weight, Tensor bias, Tensor weight_inner, Tensor bias_inner,"
    " str kind, bool chained) -> Tensor"
)
LSTM, GRU = "lstm", "gru"
OPTIONS: Mapping[str, int] = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 64, "num_warps": 4, "num_stages": 2}
"""Initial configuration: rows, units and summed units per program, warps and stages. A position has few rows, so many
programs with few units each share the weights, which all of them read from the L2 cache at each position."""
TENSORS = ("gates", "first", "carry", "weight", "bias", "inner_weight", "inner_bias", "states")
"""Tensors of a launch: the operation's, then its result."""


def _made(gates: torch.Tensor, h: torch.Tensor, *others: torch.Tensor | str | bool) -> torch.Tensor:
    """Return states (chains, positions, rows, units); those that an LSTM carries are behind the last position."""
    return gates.new_empty((h.shape[0], gates.shape[1] + (others[-2] == LSTM), h.shape[1], h.shape[2]))


torch.library.define(f"{NAMESPACE}::recurrence", _SCHEMA)
torch.library.register_fake(f"{NAMESPACE}::recurrence", _made)


def _layers(kind: str) -> Callable[..., Any]:
    def run(
        input: torch.Tensor,
        hx: torch.Tensor | Sequence[torch.Tensor],
        params: Sequence[torch.Tensor],
        *settings: bool | int | float,
    ) -> object:
        has_biases, num_layers, _, _, bidirectional, batch_first = settings
        chains = int(num_layers) * (2 if bidirectional else 1)
        each = 4 if has_biases else 2
        if len(params) != each * chains:  # Projections of states are left to torch.
            return NotImplemented
        weights = [tuple(params[each * chain : each * chain + each]) for chain in range(chains)]
        states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
        below = input.transpose(0, 1) if batch_first else input
        groups = [range(at, at + 2) for at in range(0, chains, 2)] if bidirectional else [range(chains)]
        lasts: list[list[torch.Tensor]] = [[] for _ in states]
        for group in groups:
            part = [state[group.start : group.stop] for state in states]
            found = _chains(kind, below, part, [weights[chain] for chain in group], chained=not bidirectional)
            positions = below.shape[0]
            for number, last in enumerate(lasts):
                last.append(found.select(1, positions - 1 + number))  # An index in brackets would fix the size.
            outputs = found[:, :positions]
            below = torch.cat((outputs[0], outputs[1].flip(0)), -1) if bidirectional else outputs[-1]
        output = below.transpose(0, 1) if batch_first else below
        return (output.contiguous(), *(torch.cat(last).contiguous() for last in lasts))

    return run


def _chains(
    kind: str,
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    weights: Sequence[tuple[torch.Tensor, ...]],
    *,
    chained: bool,
) -> torch.Tensor:
    """Return the states of chains that are computed side by side; the second of two directions has time reversed."""
    fed = [_gates(x, weights[0])] if chained else [_gates(x, weights[0]), _gates(x, weights[1]).flip(0)]
    weight = torch.stack([each[1] for each in weights])
    bias = torch.stack([each[3] if len(each) > 2 else each[1].new_zeros(each[1].shape[:1]) for each in weights])
    inner = weights[1:] if chained and len(weights) > 1 else ()
    biases = [each[2] if len(each) > 2 else each[0].new_zeros(each[0].shape[:1]) for each in inner]
    made: torch.Tensor = torch.ops.kernelreef.recurrence(
        torch.stack(fed).contiguous(),
        states[0].contiguous(),
        states[-1].contiguous(),
        weight,
        bias,
        torch.stack([each[0] for each in inner]) if inner else weight,
        torch.stack(biases) if inner else bias,
        kind,
        bool(inner),
    )
    return made


def _gates(x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the part of all gates that comes from inputs (positions, rows, features)."""
    gates = (x.reshape(-1, x.shape[2]) @ weights[0].t()).reshape(x.shape[0], x.shape[1], weights[0].shape[0])
    return gates + weights[2] if len(weights) > 2 else gates


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    getattr(getattr(torch.ops, LAYERS), kind).default: _layers(kind) for kind in GATES
}
"""Replacements of whole layers, as `workers.tracer.recurrent` keeps them, by their overloads."""

_BEFORE = """\
{0} = tl.load(first_ptr + layer * page + {1}, {2} & (position == 0), other=0.0)
{0} += tl.load(states_ptr + (slot - 1) * page + {1}, {2} & (position > 0), other=0.0)
"""
"""Load of states of the position before: name, place and mask."""

_BELOW = "below = tl.load(states_ptr + (slot - slots) * page + place, is_place & is_inner_layer, other=0.0)\n"
"""Load of states of the layer below at the same position."""

_ROUND = """\
{0}_near = (({0}.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
{0} = tl.where({0} == {0}, {0}_near, {0})
"""
"""Rounding of a factor to TF32, which matrix units would cut."""

_PRODUCT = """\
{0}_weights = tl.load({1}_ptr + {2} * gated * hidden + ({3} * hidden + unit[None, :]) * hidden + inner[:, None], {4})
ROUND {0}_weights
{0} = tl.dot({5}, {0}_weights, {0}PRECISION)
"""
"""Product of one gate: its total, weights, their chain, the gate, mask and the other factor."""

_ENDS: Mapping[str, str] = {
    LSTM: """\
carried = tl.load(carry_ptr + layer * page + state, is_state & (position == 0), other=0.0).to(tl.float32)
carried += tl.load(states_ptr + kept * page + state, is_state & (position > 0), other=0.0).to(tl.float32)
fresh = tl.sigmoid(given_0 + total_0) * libdevice.tanh(given_2 + total_2)
carried = tl.sigmoid(given_1 + total_1) * carried + fresh
tl.store(states_ptr + kept * page + state, carried, is_state)
value = tl.sigmoid(given_3 + total_3) * libdevice.tanh(carried)
""",
    GRU: """\
BEFORE old state is_state
update = tl.sigmoid(given_1 + total_1)
fresh = libdevice.tanh(given_2 + tl.sigmoid(given_0 + total_0) * total_2)
value = fresh + update * (old.to(tl.float32) - fresh)
""",
    "rnn_tanh": "value = libdevice.tanh(given_0 + total_0)\n",
    "rnn_relu": "value = given_0 + total_0\nvalue = tl.where(value < 0.0, 0.0, value)\n",
}
"""Computation of a state from the gates' parts, by kind."""


@dataclass(frozen=True)
class Recurrence:
    """Chains of recurrent layers that are computed side by side.

    Attributes:
        kind: One of `GATES`.
        chained: True if each chain after the first reads the states of the one before it.
        precision: Input precision of `tl.dot`, such as `'ieee'`; None for the default.
        rounded: True if factors are float32 that is rounded to TF32.
        options: Blocks, warps and stages of a launch.
    """

    kind: str
    chained: bool
    precision: str | None
    rounded: bool
    options: Mapping[str, int]

    def launches(self, kernel: str, tensors: Sequence[str], gates: Sequence[str], h: Sequence[str]) -> list[str]:
        """Return the host's lines that compute all positions.

        Args:
            kernel: Name of the kernel.
            tensors: Code of `TENSORS`.
            gates: Extents of the gates, as code.
            h: Extents of the initial states, as code.
        """
        turns = f"{gates[1]} + {h[0]} - 1" if self.chained else gates[1]
        options = [f"{name}={value}" for name, value in self.options.items()]
        rows, units = count_blocks(h[1], self.options["BLOCK_M"]), count_blocks(h[2], self.options["BLOCK_N"])
        arguments = ", ".join([*tensors, "wave", gates[1], h[1], h[2], *options])
        return [f"for wave in range({turns}):", f"    {kernel}[({units}, {h[0]}, {rows})]({arguments})"]

    def kernel(self) -> ast.FunctionDef:
        """Return the kernel of one launch."""
        gates = range(GATES[self.kind])
        lines = [
            *(f"total_{gate} = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)" for gate in gates),
            *(f"given_{gate} = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)" for gate in gates if self.chained),
        ]
        loop = _before("before", "place", "is_place") + _rounded("before")
        loop += "".join(self._product(f"total_{gate}", "weight", "layer", gate, "before") for gate in gates)
        if self.chained:
            loop += _BELOW + _rounded("below")
            more = (self._product(f"given_{gate}", "inner_weight", "(layer - 1)", gate, "below") for gate in gates)
            loop += "".join(more)
        ends = [self._sum(gate) for gate in gates]
        text = _KERNEL.format(
            totals=indent("\n".join(lines), " " * 4),
            loop=indent(self._precise(loop), " " * 8),
            end=indent("".join(ends) + self._precise(_ENDS[self.kind]), " " * 4),
        )
        function = ast.parse(text).body[0]
        assert isinstance(function, ast.FunctionDef)
        numbers = {"CHAINED": int(self.chained), "GATES": len(gates), "CARRIES": int(self.kind == LSTM)}
        fold(function, numbers)
        return function

    def _product(self, total: str, weights: str, chain: str, gate: int, factor: str) -> str:
        mask = "is_weight & is_inner_layer, other=0.0" if weights != "weight" else "is_weight, other=0.0"
        return _PRODUCT.format(total, weights, chain, gate, mask, factor)

    def _sum(self, gate: int) -> str:
        """Return the lines that add a gate's biases, and its part from inputs."""
        column = f"{gate} * hidden + unit"
        lines = f"total_{gate} += tl.load(bias_ptr + layer * gated + {column}, is_unit, other=0.0)[None, :]\n"
        fed = "layer == 0" if self.chained else ""
        mask = f"is_state & ({fed})" if fed else "is_state"
        read = f"tl.load(gates_ptr + source + ({column})[None, :], {mask}, other=0.0).to(tl.float32)"
        lines += f"given_{gate} {'+=' if self.chained else '='} {read}\n"
        if self.chained:
            more = f"tl.load(inner_bias_ptr + (layer - 1) * gated + {column}, is_unit & is_inner_layer, other=0.0)"
            lines += f"given_{gate} += {more}[None, :]\n"
        return lines

    def _precise(self, text: str) -> str:
        """Fill in precision, roundings and loads of former states."""
        lines: list[str] = []
        precision = f", input_precision={self.precision!r}" if self.precision else ""
        for line in text.splitlines():
            name, _, rest = line.partition(" ")
            if name == "ROUND":
                lines += _ROUND.format(rest).splitlines() if self.rounded else []
            elif name == "BEFORE":
                lines += _before(*rest.split()).splitlines()
            else:
                lines.append(line.replace("PRECISION", precision))
        return "\n".join(lines) + "\n"


def _before(name: str, place: str, mask: str) -> str:
    return _BEFORE.format(name, place, mask)


def _rounded(name: str) -> str:
    return f"ROUND {name}\n"


_KERNEL = """
@triton.jit
def step(gates_ptr, first_ptr, carry_ptr, weight_ptr, bias_ptr, inner_weight_ptr, inner_bias_ptr, states_ptr, wave,
         positions, rows, hidden, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    layer = tl.program_id(1).to(tl.int64)
    gated = hidden * GATES
    page = rows * hidden
    slots = positions + CARRIES
    row = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    unit = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_unit = unit < hidden
    is_row = row < rows
    if CHAINED:
        position = wave - layer
        is_inner_layer = layer > 0
        is_row = is_row & (position >= 0) & (position < positions)
        source = ((position * rows + row) * gated)[:, None]
    else:
        position = wave
        source = (((layer * positions + position) * rows + row) * gated)[:, None]
    slot = layer * slots + position
    kept = layer * slots + positions
    state = (row * hidden)[:, None] + unit[None, :]
    is_state = is_row[:, None] & is_unit[None, :]
{totals}
    for start in range(0, hidden, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        is_inner = inner < hidden
        place = (row * hidden)[:, None] + inner[None, :]
        is_place = is_row[:, None] & is_inner[None, :]
        is_weight = is_inner[:, None] & is_unit[None, :]
{loop}
{end}
    tl.store(states_ptr + slot * page + state, value, is_state)
"""
