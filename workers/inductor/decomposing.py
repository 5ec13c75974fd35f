"""Products with a side of one row or column as sums: there is nothing that a tile of them would use twice."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

HALVES = (torch.float16, torch.bfloat16)


def thin_products(known: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """A table of decompositions with those of matrix products that have a side of size 1, whatever the sizes.

    Args:
        known: The table; products with larger sides are left to it.
    """
    aten = torch.ops.aten

    def mm(a: torch.Tensor, b: torch.Tensor, **more: Any) -> Any:
        return _sums(a, b) if _is_thin(a, b) and not more else _left(aten.mm.default, a, b, **more)

    def bmm(a: torch.Tensor, b: torch.Tensor, **more: Any) -> Any:
        return _sums(a, b) if _is_thin(a, b) and not more else _left(aten.bmm.default, a, b, **more)

    def addmm(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        if not _is_thin(a, b):
            return _left(aten.addmm.default, c, a, b, beta=beta, alpha=alpha)
        wide = _sums(_wide(a), _wide(b)) * alpha
        return (wide + _wide(c) * beta if beta else wide).to(a.dtype)

    def mv(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _sums(a, b.unsqueeze(-1)).squeeze(-1)

    def _left(function: Any, *args: Any, **more: Any) -> Any:
        return known[function](*args, **more) if function in known else NotImplemented

    return {**known, aten.mm.default: mm, aten.bmm.default: bmm, aten.addmm.default: addmm, aten.mv.default: mv}


def _is_thin(a: torch.Tensor, b: torch.Tensor) -> bool:
    sides = (a.shape[-2], a.shape[-1], b.shape[-1])
    return a.dtype.is_floating_point and any(isinstance(side, int) and side == 1 for side in sides)


def _sums(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product, each element a sum in float32 at least."""
    return (_wide(a).unsqueeze(-1) * _wide(b).unsqueeze(-3)).sum(-2).to(a.dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in HALVES else tensor
