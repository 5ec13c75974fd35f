"""LSTM, GRU and plain recurrent layers as one operation of a reference graph.

torch writes them as one operation per gate and position: 46,000 for six layers and 512 positions, and a baseline that
takes as many launches. So a reference's call stays whole, and the evaluator calls torch's own layer in float64.
Runs inside the sandbox.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import register_flop_formula

NAMESPACE = "kernelreef_layers"
"""Namespace of the operations that stand for whole layers while a reference is traced."""
GATES: Mapping[str, int] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Number of gates by kind of layer: a layer's weights have as many rows per unit."""
_SETTINGS = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
_SCHEMAS = {
    "lstm": f"(Tensor input, Tensor[] hx, Tensor[] params, {_SETTINGS}) -> (Tensor, Tensor, Tensor)",
    **dict.fromkeys(
        ("gru", "rnn_tanh", "rnn_relu"), f"(Tensor input, Tensor hx, Tensor[] params, {_SETTINGS}) -> (Tensor, Tensor)"
    ),
}


def _made(
    gates: int,
    input: torch.Tensor,
    hx: torch.Tensor | Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    *settings: bool | int | float,
) -> tuple[torch.Tensor, ...]:
    """Return tensors with the shapes of a layer's results: one per position, and the last state or states.

    Raises:
        ValueError: If sizes do not fit each other, as torch raises. Projections of states are left to torch.
    """
    states = (hx,) if isinstance(hx, torch.Tensor) else tuple(hx)
    directions = 2 if settings[4] else 1
    hidden = states[0].shape[-1]
    each = 4 if settings[0] else 2
    if len(params) == each * int(settings[1]) * directions:
        rows = input.shape[0 if settings[5] else 1]
        wanted: list[tuple[int | float, ...]] = [(directions * settings[1], rows, hidden)] * len(states)
        for chain in range(len(params) // each):
            features = input.shape[2] if chain < directions else directions * hidden
            wanted += [(gates * hidden, features), (gates * hidden, hidden), *[(gates * hidden,)] * (each - 2)]
        if any(tuple(tensor.shape) != shape for tensor, shape in zip((*states, *params), wanted, strict=True)):
            raise ValueError("the sizes of a recurrent layer do not fit each other")
    output = input.new_empty((*input.shape[:2], directions * hidden))
    return (output, *(torch.empty_like(state) for state in states))


def _flops(
    input_shape: Sequence[int], hx_shape: object, params_shape: Sequence[Sequence[int]], *_: object, **__: object
) -> int:
    """Count the multiplications and additions of all weights, (rows, columns) each, at every position of every row."""
    positions = input_shape[0] * input_shape[1]
    return sum(2 * positions * shape[0] * shape[1] for shape in params_shape if len(shape) == 2)


for _name, _schema in _SCHEMAS.items():
    torch.library.define(f"{NAMESPACE}::{_name}", _schema)
    torch.library.register_fake(f"{NAMESPACE}::{_name}", partial(_made, GATES[_name]))
    register_flop_formula(getattr(getattr(torch.ops, NAMESPACE), _name))(_flops)


class WholeLayers(TorchFunctionMode):
    """Mode that keeps calls of recurrent layers whole. Packed sequences, and dropout in training, are left to torch."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        name = getattr(func, "__name__", "")
        # Of a packed sequence the fourth argument is its weights.
        if name in _SCHEMAS and len(args) == 9 and isinstance(args[3], bool) and not (args[5] and args[6]):
            input, hx, params, *settings = args
            states = list(hx) if isinstance(hx, tuple | list) else hx
            settings[3] = False  # Without dropout training is no other.
            return getattr(getattr(torch.ops, NAMESPACE), name)(input, states, list(params), *settings)
        return func(*args, **(kwargs or {}))


def operation_of(namespace: str, name: str, overload: str) -> str:
    """Return an operation as graphs name it: ATen's own for a whole layer."""
    return f"aten.{name}.input" if namespace == NAMESPACE else f"{namespace}.{name}.{overload}"
