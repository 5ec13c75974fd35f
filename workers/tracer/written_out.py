"""Operations of references that are written out in others, in graphs and in TorchInductor's seeds alike.

As PyTorch has them they raise, or decide sizes, by values: mutants with other values could not be evaluated. Or they
leave open what equal values become: PyTorch documents nothing for `topk`, nor for `sort` without `stable=True`.
"""

from collections.abc import Callable, Mapping
from math import pi
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload


def _repeated(repeats: torch.Tensor, *, output_size: int | None = None) -> object:
    """Return each number of a segment as often as it has rows; int32 or int64 of shape `[output_size]`."""
    if output_size is None:
        return NotImplemented
    rows = torch.arange(output_size, device=repeats.device)
    segment = torch.searchsorted(repeats.cumsum(0), rows, right=True)
    return segment.clamp(max=repeats.shape[0] - 1).to(repeats.dtype)


def _first_of_the_sorted(
    values: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k first of a stable sort: of equal values the first ones, in their order."""
    found, places = torch.sort(values, stable=True, dim=dim, descending=largest)
    return found.narrow(dim, 0, k), places.narrow(dim, 0, k)


def _sorted(values: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.sort(values, stable=True, dim=dim, descending=descending)
    return found.values, found.indices


def _distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return distances of all pairs from differences: a product of matrices would lose the digits of small ones."""
    found: torch.Tensor = torch.ops.aten._cdist_forward(left, right, 2.0, 2)
    return found


def _normed(values: torch.Tensor, scale: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight by its direction and length, as `weight_norm` has it."""
    norm = torch.linalg.vector_norm(values, dim=[axis for axis in range(values.dim()) if axis != dim], keepdim=True)
    return values * (scale / norm), norm


def _window(*terms: float) -> Callable[..., torch.Tensor]:
    """Return a window as a sum of cosines, with these factors."""

    def made(size: int, periodic: bool = True, *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
        turns = torch.arange(size, dtype=dtype or torch.get_default_dtype()) * (2 * pi / max(1, size - (not periodic)))
        window = torch.full_like(turns, terms[0])
        for times, factor in enumerate(terms[1:], 1):
            window = window + factor * torch.cos(turns * times)
        return window

    return made


def _one_by_one(name: str) -> Callable[..., object]:
    """Return a function that calls an operation for each tensor of lists, as `torch._foreach_*` do."""

    def called(*args: object, **kwargs: object) -> list[object] | None:
        count = next(len(each) for each in args if isinstance(each, list | tuple))
        rows = ([each[at] if isinstance(each, list | tuple) else each for each in args] for at in range(count))
        results = [_single(name, row, kwargs) for row in rows]
        return None if name.endswith("_") else results

    return called


def _single(name: str, args: list[Any], kwargs: Mapping[str, Any]) -> object:
    """Call an operation for one tensor; some have another name or order there."""
    plain = name.removesuffix("_")
    if plain == "norm":
        return torch.linalg.vector_norm(args[0], *args[1:], **kwargs)
    if plain in ("addcmul", "addcdiv") and len(args) > 3:
        scaled = (args[1] * args[2] if plain == "addcmul" else args[1] / args[2]) * args[3]
        return args[0].add_(scaled) if name.endswith("_") else args[0] + scaled
    if plain in ("maximum", "minimum") and not isinstance(args[1], torch.Tensor):
        name = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
    return getattr(torch.ops.aten, name)(*args, **kwargs)


def _for_lists() -> dict[Any, Callable[..., Any]]:
    """Return the replacements of operations on lists of tensors, by overload."""
    found: dict[Any, Callable[..., Any]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        if full.startswith("aten::_foreach_") and "out" not in overload.split("_"):
            packet = getattr(torch.ops.aten, name)
            found[getattr(packet, overload or "default")] = _one_by_one(name.removeprefix("_foreach_"))
    return found


def _kth(values: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k-th smallest of each row, and the first place that a stable sort gives it."""
    sorted_, places = torch.sort(values, stable=True, dim=dim)
    chosen = [each.narrow(dim, k - 1, 1) for each in (sorted_, places)]
    found, place = chosen if keepdim else [each.squeeze(dim) for each in chosen]
    return found, place


def by_torch(operation: OpOverload) -> Callable[..., Any] | None:
    """Return PyTorch's own definition of an operation by others; None if it has none or draws random numbers."""
    if torch.Tag.nondeterministic_seeded in operation.tags:
        return None
    if operation.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return operation.decompose
    found: Callable[..., Any] | None = decomposition_table.get(operation)
    return found


WRITTEN_OUT: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten.repeat_interleave.Tensor: _repeated,
    torch.ops.aten.topk.default: _first_of_the_sorted,
    torch.ops.aten.sort.default: _sorted,
    torch.ops.aten.kthvalue.default: _kth,
    torch.ops.aten._euclidean_dist.default: _distances,
    torch.ops.aten._weight_norm_interface.default: _normed,
    torch.ops.aten.hann_window.default: _window(0.5, -0.5),
    torch.ops.aten.hann_window.periodic: _window(0.5, -0.5),
    torch.ops.aten.hamming_window.default: _window(0.54, -0.46),
    torch.ops.aten.hamming_window.periodic: _window(0.54, -0.46),
    torch.ops.aten.blackman_window.default: _window(0.42, -0.5, 0.08),
    torch.ops.aten.blackman_window.periodic: _window(0.42, -0.5, 0.08),
    **_for_lists(),
}
"""Replacements by overload; one returns NotImplemented where the size of the result would depend on values."""
