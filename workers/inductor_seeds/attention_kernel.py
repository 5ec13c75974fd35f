"""The kernel of attention: what lies between its products stays on chip, of which there is rows times keys."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from workers.inductor_seeds.folding import fold
from workers.inductor_seeds.runtime import count_blocks

NARROW = 64
"""Maximum elements of a query or value that leave registers for 128 rows of float32 in 8 warps."""


@dataclass(frozen=True)
class Attention:
    """One operation.

    Attributes:
        wide: Elements of a query.
        channels: Elements of a value.
        scale: Factor of scores.
        biased: True if something is added to scores, or takes their place.
        masks: True if it takes their place where it is minus infinity: NaN may not reach the result from there.
        outer: True if neighbouring matrices share a matrix of it, as heads share the padding of a sequence; else they
            take one after another in turn, and begin anew.
        empty_is_zero: True if a row without scores is zero; else it is NaN.
        precision: Input precision of `tl.dot`, such as `'ieee'`; None for the default.
        options: Blocks, warps and stages of a launch.
    """

    wide: int
    channels: int
    scale: float
    biased: bool
    masks: bool
    outer: bool
    empty_is_zero: bool
    precision: str | None
    options: Mapping[str, int]

    def launch(self, kernel: str, tensors: Sequence[str], q: Sequence[str], keys: str, bias: Sequence[str]) -> str:
        """Return the host's line that computes it.

        Args:
            kernel: Name of the kernel.
            tensors: Code of query, key, value, bias if there is one, and result.
            q: Extents of the query, as code.
            keys: Number of keys, as code.
            bias: Extents of the bias, as code; empty if there is none.
        """
        numbers = [q[1], keys]
        if bias:
            numbers += ["0", keys] if bias[1] == "1" else [keys, f"({bias[1]}) * ({keys})"]
            numbers += [f"({q[0]}) // ({bias[0]})" if self.outer else "1", bias[0]]
        options = [f"{name}={value}" for name, value in self.options.items()]
        grid = f"{q[0]}, {count_blocks(q[1], self.options['BLOCK_M'])}"
        return f"{kernel}[({grid})]({', '.join([*tensors, *numbers, *options])})"

    def kernel(self) -> ast.FunctionDef:
        """Return the kernel."""
        precision = f", input_precision={self.precision!r}" if self.precision else ""
        text = _KERNEL.format(
            bias=", bias_ptr" if self.biased else "",
            step=", bias_step, bias_page, bias_turn, bias_pages" if self.biased else "",
            page="    page = (matrix // bias_turn) % bias_pages\n" if self.biased else "",
            add=indent(_MASK if self.masks else _BIAS, " " * 8) if self.biased else "",
            precision=precision,
            scale=f" * {self.scale!r}" if self.scale != 1.0 else "",
            end="    total = tl.where(total == 0.0, 1.0, total)\n" if self.empty_is_zero else "",
        )
        function = ast.parse(text).body[0]
        assert isinstance(function, ast.FunctionDef)
        sizes = {"WIDE": self.wide, "CHANNELS": self.channels}
        fold(function, sizes | {f"{name}_BLOCK": _block(size) for name, size in sizes.items()})
        return function


def options_for(sizes: Sequence[int], rows: int | None, *, is_single: bool) -> dict[str, int]:
    """Return an initial configuration: rows and keys per program, warps and stages.

    Of float32, products have three parts each, and a tile of keys is small. On sm_90, products of up to 64 elements in
    TF32 parts take up to 250 registers without a spill, wider ones 255 with 100 to 150 bytes of spills.

    Args:
        sizes: Elements of a query and of a value.
        rows: Maximum number of rows; None if unknown.
        is_single: True for float32.
    """
    block, warps = (64 if is_single and max(sizes) > NARROW else 128), 8
    fitting = block if rows is None else min(block, _block(rows))
    warps = max(2, warps * fitting // block)
    return {"BLOCK_M": fitting, "BLOCK_N": 32 if is_single else 64, "num_warps": warps, "num_stages": 2}


def _block(size: int) -> int:
    """Return the elements of a tile along an axis of a product: a power of two, 16 at least."""
    return max(16, 1 << (size - 1).bit_length())


_LOAD = "tl.load(bias_ptr + bias_page * page + row.to(tl.int64)[:, None] * bias_step + key[None, :], inside, other=0.0)"
_BIAS = f"scores += {_LOAD}\n"
_MASK = f"scores = tl.where({_LOAD} < 0.0, float('-inf'), scores)\n"

_KERNEL = """
@triton.jit
def attention(q_ptr, k_ptr, v_ptr{bias}, y_ptr, rows, keys{step}, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, WIDE_BLOCK)
    channel = tl.arange(0, CHANNELS_BLOCK)
    is_row = row < rows
    first = (matrix * rows + row)[:, None]
    q = tl.load(q_ptr + first * WIDE + depth[None, :], is_row[:, None] & (depth < WIDE)[None, :], other=0.0)
    peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    y = tl.zeros((BLOCK_M, CHANNELS_BLOCK), tl.float32)
{page}
    for start in range(0, keys, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        is_key = key < keys
        inside = is_row[:, None] & is_key[None, :]
        place = matrix * keys + key
        is_wide = is_key[None, :] & (depth < WIDE)[:, None]
        k = tl.load(k_ptr + place[None, :] * WIDE + depth[:, None], is_wide, other=0.0)
        scores = tl.dot(q, k{precision}){scale}
{add}
        scores = tl.where(is_key[None, :], scores, float("-inf"))
        reached = tl.maximum(peak, tl.max(scores, 1))
        offset = tl.where(reached == float("-inf"), 0.0, reached)
        weights = tl.exp(scores - offset[:, None])
        kept = tl.exp(peak - offset)
        total = total * kept + tl.sum(weights, 1)
        is_value = is_key[:, None] & (channel < CHANNELS)[None, :]
        v = tl.load(v_ptr + place[:, None] * CHANNELS + channel[None, :], is_value, other=0.0)
        y = y * kept[:, None] + tl.dot(weights.to(v.dtype), v{precision})
        peak = reached
{end}
    y = y / total[:, None]
    tl.store(y_ptr + first * CHANNELS + channel[None, :], y, is_row[:, None] & (channel < CHANNELS)[None, :])
"""
