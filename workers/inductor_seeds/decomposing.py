"""Products with a side of one row or column as sums, because no element of an operand's tile would be used twice."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)

Table = Mapping[torch._ops.OpOverload[..., Any], Callable[..., Any]]


def thin_products(known: Table) -> Table:
    """Extend a table of decompositions by matrix products with a side of size 1.

    Args:
        known: The table; it still handles products whose sides are all larger.
    """
    aten = torch.ops.aten
    return {
        **known,
        aten.mm.default: _multiplied(known.get(aten.mm.default, _as_it_is)),
        aten.bmm.default: _multiplied(known.get(aten.bmm.default, _as_it_is)),
        aten.addmm.default: _added(known.get(aten.addmm.default, _as_it_is)),
        aten.mv.default: _applied,
    }


def _as_it_is(*_: object, **__: object) -> torch.Tensor:
    """Tell the tracer that there is no decomposition."""
    none: torch.Tensor = NotImplemented
    return none


def _applied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _sums(a, b.unsqueeze(-1)).squeeze(-1)


def _multiplied(known: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _sums(a, b) if _is_thin(a, b) else known(a, b)

    return product


def _added(known: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def addmm(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> torch.Tensor:
        if not _is_thin(a, b):
            left: torch.Tensor = known(c, a, b, beta=beta, alpha=alpha)
            return left
        total = _sums(_wide(a), _wide(b)) * alpha
        return (total + _wide(c) * beta if beta else total).to(a.dtype)

    return addmm


def _is_thin(a: torch.Tensor, b: torch.Tensor) -> bool:
    sides: tuple[object, ...] = (a.shape[-2], a.shape[-1], b.shape[-1])
    return a.dtype.is_floating_point and any(isinstance(side, int) and side == 1 for side in sides)


def _sums(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product; each element is a sum in at least float32."""
    return (_wide(a).unsqueeze(-1) * _wide(b).unsqueeze(-3)).sum(-2).to(a.dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in HALVES else tensor
