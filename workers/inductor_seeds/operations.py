"""Operations and decompositions that replace torch's in a traced reference.

Torch's information for Inductor about a convolution depends on this machine's libraries, and fixes extents that should
stay symbols. Our operation depends on neither.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from math import inf, prod
from operator import add
from typing import Any

import torch
from torch._subclasses.fake_impls import register_op_impl
from torch.nn import functional

from workers.resizing import RESIZING
from workers.tracer.written_out import WRITTEN_OUT

NAMESPACE = "kernelreef"
CONVOLUTION = f"torch.ops.{NAMESPACE}.convolution.default"
"""Name of the operation in Inductor's host code. Its arguments are those of `aten.convolution` without the bias."""
_SCHEMA = (
    "(Tensor x, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed,"
    " SymInt[] output_padding, SymInt groups) -> Tensor"
)

_How = tuple[Sequence[int], Sequence[int], Sequence[int], bool, Sequence[int], int]
"""Types of the schema's arguments after the tensors."""


def _made(x: torch.Tensor, weight: torch.Tensor, *how: *_How) -> torch.Tensor:
    """Return a tensor with the shape of a convolution's result."""
    stride, padding, dilation, transposed, output_padding, groups = how
    axes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, output_padding, strict=True)
    if transposed:
        channels = weight.shape[1] * groups
        extents = [
            (size - 1) * step - 2 * pad + gap * (taps - 1) + more + 1 for size, taps, step, pad, gap, more in axes
        ]
    else:
        channels = weight.shape[0]
        extents = [(size + 2 * pad - gap * (taps - 1) - 1) // step + 1 for size, taps, step, pad, gap, _ in axes]
    shape = (x.shape[0], channels, *extents)
    # Packed, because torch's own strides contain a maximum with 1 for every extent, which enters every index.
    return x.new_empty_strided(shape, [prod(shape[axis + 1 :]) for axis in range(len(shape))])


torch.library.define(f"{NAMESPACE}::convolution", _SCHEMA)
torch.library.register_fake(f"{NAMESPACE}::convolution", _made)


def _convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *how: *_How) -> torch.Tensor:
    made: torch.Tensor = torch.ops.kernelreef.convolution(x.contiguous(), weight.contiguous(), *how)
    return made if bias is None else made + bias.reshape(-1, *(1 for _ in weight.shape[2:]))


@register_op_impl(torch.ops.aten.constant_pad_nd.default)
def _padded(_mode: object, _operation: object, x: torch.Tensor, pad: Sequence[int], value: float = 0) -> torch.Tensor:
    """Return a tensor with the shape of a padded one: torch's own computes it with numbers, which fixes all sizes."""
    shape = [*x.shape]
    for at in range(len(pad) // 2):
        shape[-1 - at] += pad[2 * at] + pad[2 * at + 1]
    return x.new_empty(shape)


@torch.ops.aten.max_pool1d.default.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)
def _largest_along(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> torch.Tensor:
    """Take maxima along one axis as along two: torch's own composition takes numbers for sizes."""
    steps = (1, *(stride or kernel_size))
    wide = functional.max_pool2d(
        x.unsqueeze(-2), (1, *kernel_size), steps, (0, *padding), (1, *dilation), ceil_mode=ceil_mode
    )
    return wide.squeeze(-2)


MOST_PARTS = 64
"""Maximum elements of a window of three axes; each is a term of the kernel."""


@torch.ops.aten.max_pool3d.default.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)
def _largest_within(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> torch.Tensor:
    """Take maxima over three axes from shifted parts: Inductor reduces windows of 25 elements and more one by one."""
    window, steps, pads, gaps = (_three(sizes) for sizes in (kernel_size, stride or kernel_size, padding, dilation))
    if ceil_mode or prod(window) > MOST_PARTS or not x.is_floating_point():
        found: torch.Tensor = torch.ops.aten.max_pool3d_with_indices(x, window, steps, pads, gaps, ceil_mode)[0]
        return found
    return reduce(torch.maximum, _parts(x, window, steps, pads, gaps, -inf))


def _averaged(
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    """Average over three axes as a sum of shifted parts, which Inductor makes one kernel."""
    window, steps, pads = (_three(sizes) for sizes in (kernel_size, stride or kernel_size, padding))
    if ceil_mode or divisor_override is not None or (any(pads) and not count_include_pad) or prod(window) > MOST_PARTS:
        return _as_it_is()
    return (reduce(add, _parts(_wide(x), window, steps, pads, (1, 1, 1), 0.0)) / prod(window)).to(x.dtype)


def _parts(
    x: torch.Tensor,
    window: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    gaps: Sequence[int],
    beyond: float,
) -> Iterator[torch.Tensor]:
    """Return what the windows of three axes read, a tensor of the result's shape for each of their elements."""
    wide = functional.pad(x, [side for pad in reversed(pads) for side in (pad, pad)], value=beyond)
    for offsets in itertools.product(*map(range, window)):
        part = wide
        axes = zip(offsets, window, steps, gaps, wide.shape[-3:], strict=True)
        for axis, (offset, taps, step, gap, size) in enumerate(axes):
            first = offset * gap
            last = first + (size - gap * (taps - 1) - 1) // step * step + 1
            part = torch.ops.aten.slice.Tensor(part, axis - 3 + x.dim(), first, last, step)
        yield part


def _three(sizes: Sequence[int]) -> list[int]:
    return [*sizes] * 3 if len(sizes) == 1 else [*sizes]


def _searched(
    sequence: torch.Tensor,
    values: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Count the elements before each value: Inductor's binary search is a function of its runtime."""
    if sequence.dim() != 1 or sorter is not None:
        return _as_it_is()
    wide = values.unsqueeze(-1)
    before = sequence <= wide if right or side == "right" else sequence < wide
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _distances(left: torch.Tensor, right: torch.Tensor, p: float, mode: int | None) -> torch.Tensor:
    """Return distances of all pairs of rows as a reduction of their differences."""
    apart = _wide(left.unsqueeze(-2)) - _wide(right.unsqueeze(-3))
    found: torch.Tensor = torch.linalg.vector_norm(apart, p, dim=-1)
    return found.to(left.dtype)


def _pooled(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, *settings: object) -> object:
    """Add the rows of each bag, or average them, as `embedding_bag` does: a sum of gathered rows by segment."""
    defaults: tuple[object, ...] = (False, 0, False, None, False, -1)
    _, mode, _, per_sample_weights, include_last_offset, padding = (*settings, *defaults[len(settings) :])
    if mode not in (0, 1) or padding != -1 or indices.dim() != 1:  # The largest of each bag has no such sum.
        return _as_it_is()
    starts = offsets[:-1] if include_last_offset else offsets
    rows = torch.arange(indices.shape[0], device=indices.device)
    bag = torch.searchsorted(starts, rows, right=True) - 1
    gathered = weight.index_select(0, indices).float()
    if isinstance(per_sample_weights, torch.Tensor):
        gathered = gathered * per_sample_weights.unsqueeze(-1)
    pooled = gathered.new_zeros(starts.shape[0], weight.shape[1]).index_add(0, bag, gathered)
    sizes = gathered.new_zeros(starts.shape[0]).index_add(0, bag, torch.ones_like(bag, dtype=torch.float32))
    pooled = pooled / sizes.clamp(min=1).unsqueeze(-1) if mode == 1 else pooled
    return pooled.to(weight.dtype), bag, sizes, sizes


def _bucketed(
    values: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor:
    return _searched(boundaries, values, out_int32=out_int32, right=right)


MOST_RANKED = 1024
"""Maximum elements of a row that are ranked by comparing each with each."""


def _ranked(
    values: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort by rank: the number of elements before each. NaN is the largest, and equal ones keep their order."""
    if not values.dim() or values.shape[dim] > MOST_RANKED:
        none: tuple[torch.Tensor, torch.Tensor] = NotImplemented
        return none
    rows = values.movedim(dim, -1)
    place = torch.arange(rows.shape[-1], device=values.device)
    one, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    ahead, equal = (other > one, other == one) if descending else (other < one, other == one)
    if values.is_floating_point():
        ahead = ahead | (other.isnan() & ~one.isnan() if descending else ~other.isnan() & one.isnan())
        equal = equal | (other.isnan() & one.isnan())
    rank = (ahead | (equal & (place < place.unsqueeze(-1)))).sum(-1)
    is_here = rank.unsqueeze(-2) == place.unsqueeze(-1)
    chosen = torch.where(is_here, rows.unsqueeze(-2), 0).sum(-1).to(values.dtype)
    places = torch.where(is_here, place, 0).sum(-1)
    return chosen.movedim(-1, dim), places.movedim(-1, dim)


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    **RESIZING,
    torch.ops.aten.sort.stable: _ranked,
    torch.ops.aten.convolution.default: _convolve,
    torch.ops.aten.avg_pool3d.default: _averaged,
    torch.ops.aten.searchsorted.Tensor: _searched,
    torch.ops.aten.bucketize.Tensor: _bucketed,
    torch.ops.aten._embedding_bag_forward_only.default: _pooled,
    torch.ops.aten._embedding_bag.default: _pooled,
    torch.ops.aten._cdist_forward.default: _distances,
    **WRITTEN_OUT,
}
"""Replacements of torch's operations in a trace, by their overloads."""

WHOLE_ROW = 1024
"""Maximum elements of a row that Inductor keeps in one tile."""

HALVES = (torch.float16, torch.bfloat16)

Table = Mapping[torch._ops.OpOverload[..., Any], Callable[..., Any]]


def extended(known: Table) -> Table:
    """Extend a table of decompositions by matrix products with a side of size 1, and by softmax of long rows.

    Args:
        known: The table; it still handles products whose sides are all larger, and other rows.
    """
    aten = torch.ops.aten
    softmax, log_softmax = aten._softmax.default, aten._log_softmax.default
    return {
        **known,
        aten.mm.default: _multiplied(known.get(aten.mm.default, _as_it_is)),
        aten.bmm.default: _multiplied(known.get(aten.bmm.default, _as_it_is)),
        aten.addmm.default: _added(known.get(aten.addmm.default, _as_it_is)),
        aten.mv.default: _applied,
        softmax: _of_long_rows(known.get(softmax, _as_it_is), lambda x, peak, total: torch.exp(x - peak) / total),
        log_softmax: _of_long_rows(
            known.get(log_softmax, _as_it_is), lambda x, peak, total: x - peak - torch.log(total)
        ),
    }


def _of_long_rows(
    known: Callable[..., torch.Tensor], finished: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
) -> Callable[..., torch.Tensor]:
    """Read rows that do not fit into a tile twice instead of three times: maximum and sum in one pass."""

    def softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
        extent: object = x.shape[dim] if x.dim() else 1
        if not isinstance(extent, int) or extent <= WHOLE_ROW or x.dtype == torch.float64:
            return known(x, dim, half_to_float)
        wide = _wide(x)
        peak, total = import_module("torch._inductor.inductor_prims").prepare_softmax_online(wide, dim)
        return finished(wide, peak, total).to(wide.dtype if half_to_float else x.dtype)

    return softmax


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
