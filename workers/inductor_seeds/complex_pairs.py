"""Complex numbers as pairs of real ones while a reference is traced, because Inductor has no kernels for them.

Torch's own tensors of pairs know the arithmetic; here they are made wherever a reference makes complex numbers.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import torch
from torch._ops import OpOverload

from workers.tracer.modes import DispatchMode

_AS_COMPLEX = torch.ops.aten.view_as_complex.default
_COMPLEX, _POLAR = torch.ops.aten.complex.default, torch.ops.aten.polar.default


def complex_pairs() -> AbstractContextManager[object]:
    """Return the mode; a context without effect if torch has no tensors of pairs."""
    try:
        pairs: Any = import_module("torch._subclasses.complex_tensor")
    except ImportError:
        return nullcontext()
    return _ComplexPairs(pairs.ComplexTensor)


class _ComplexPairs(DispatchMode):
    """Mode that makes pairs of real tensors instead of complex ones."""

    def __init__(self, pair: Callable[..., object]) -> None:
        super().__init__()
        self._pair = pair

    def __torch_dispatch__(
        self,
        operation: OpOverload,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        if operation is _AS_COMPLEX:
            return self._pair(args[0].select(-1, 0), args[0].select(-1, 1))
        if operation is _COMPLEX:
            return self._pair(*_alike(*args))
        if operation is _POLAR:
            length, angle = _alike(*args)
            return self._pair(length * angle.cos(), length * angle.sin())
        return operation(*args, **(kwargs or {}))


def _alike(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    both = one * other  # Only its shape is used.
    return one.expand_as(both), other.expand_as(both)
