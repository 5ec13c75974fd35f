"""Device memory of an interpreted plan: one copy of its buffers per draw of inputs.

An address is a number, never a machine pointer, and looks like one of a card's. Buffers lie at unpredictable addresses,
far from each other or, in every other plan, near. Every access is checked, and a stray one is a fault that names the
buffer. Addresses are the same in every draw. The first axis of a lane's arrays is its draw, the second its program.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import SystemRandom

import numpy as np
import torch

from workers.interpreter.faults import Array, OutOfBounds
from workers.interpreter.formats import TritonType, decode, encode, format_of
from workers.protocol import DTYPE_BYTES, View

FIRST_ADDRESS = 0x7F << 40
"""Lowest address of a buffer, as high as CUDA's addresses."""
ADDRESS_BYTES = 1 << 40
"""Size of the address range: with `FIRST_ADDRESS` it fills 47 bits."""
LEAST_GAP_BYTES = 1 << 31
"""Minimum bytes between two buffers, so that overruns stay recognisable: 256 buffers of 64 GiB leave that much."""
NEAR_GAP_BYTES = (1 << 12, 2 << 20)
"""Range of bytes between two near buffers: as in an allocator's segment, and enough for short overruns."""
ALIGNMENTS = (256, 2 << 20)
"""Alignments of buffers in bytes, equally likely: the one that allocators promise, and the one that they use."""
POISONS = (0xFF, 0x00, 0x3F)
"""Byte that fills unwritten buffers, by draw: NaN in all float formats and -1 in signed integers, then zeros, then
positive numbers near one. The last of several draws has random bytes. A kernel that recognises unwritten memory by one
poison fails with the next."""
TILE_BYTES = 8 * 8191
"""Bytes of a tile: elements of any dtype, and no power of two, so that rows and columns of matrices differ."""


@dataclass(frozen=True)
class LaneGroup:
    """Lanes that run together.

    Attributes:
        draws: Indices of the draws, (D,).
        programs: Program ids along the three axes of the grid, (P, 3).
    """

    draws: Array
    programs: Array


@dataclass(frozen=True)
class _Write:
    dtype: np.dtype[np.generic]
    draws: Array
    index: Array
    old: Array


@dataclass
class TrafficMeter:
    """Work that one draw has done.

    Attributes:
        moved_bytes: Bytes that active lanes have loaded and stored.
        dot_operations: Floating-point operations of matrix products. Float32 products as TF32 or in parts count as the
            bfloat16 operations that the matrix unit could do in that time.
        float_operations: Operations on single floats, without reductions.
        special_operations: Those of them that need a special unit or several instructions: exponentials, quotients.
        weight: Factor for the next operations.
    """

    moved_bytes: float = 0.0
    dot_operations: float = 0.0
    float_operations: float = 0.0
    special_operations: float = 0.0
    weight: float = 1.0

    @property
    def done(self) -> tuple[float, float, float]:
        """Bytes moved, operations of products and operations on floats."""
        return self.moved_bytes, self.dot_operations, self.float_operations


class DeviceMemory:
    """Buffers, with an undo log and a meter.

    Attributes:
        meter: Work done, without undone work.
    """

    def __init__(
        self,
        draws: int,
        sizes: Sequence[int],
        names: Sequence[str],
        tiles: Mapping[int, Array] | None = None,
        is_near: bool = False,
    ) -> None:
        """Make buffers, filled with poison.

        Args:
            draws: Number of copies.
            sizes: Bytes of each buffer.
            names: Names of the buffers in faults.
            tiles: If not None, buffers are zero instead, and those named here read as repetitions of a tile of
                `TILE_BYTES` wherever they are zero; they cost no memory until they are touched.
            is_near: True if buffers lie near each other.
        """
        self._sizes = np.asarray(sizes, dtype=np.int64)
        padded = -(-self._sizes // ALIGNMENTS[0]) * ALIGNMENTS[0]
        self._starts = np.concatenate([[0], np.cumsum(padded)[:-1]]).astype(np.int64)
        self._names = tuple(names)
        self._numbers, self._lows = _scatter_buffers(padded, is_near)
        self._bases = np.zeros(len(padded), dtype=np.int64)
        self._bases[self._numbers] = self._lows
        self._space = np.zeros((draws, int(padded.sum())), dtype=np.uint8)  # Costs no memory until it is touched.
        self._tiles = np.stack([np.zeros(TILE_BYTES, np.uint8), *(tiles or {}).values()])
        self._turns = np.zeros(int(self._sizes.max(initial=0)) // TILE_BYTES + 1, dtype=np.int64)
        self._tile_of = np.zeros(len(self._sizes), dtype=np.int64)
        self._tile_of[list(tiles or {})] = np.arange(1, len(self._tiles))
        if tiles is None:
            for draw in range(draws):
                self._space[draw].fill(POISONS[draw % len(POISONS)])
            if draws > 1:
                self._space[-1] = np.random.default_rng().integers(0, 1 << 8, self._space.shape[1], np.uint8)
        self._writes: list[_Write] = []
        self.meter = TrafficMeter()
        self._kept = TrafficMeter()

    def address(self, buffer: int, offset_bytes: int) -> int:
        """Return the address of a byte of a buffer."""
        return int(self._bases[buffer]) + offset_bytes

    def size(self, buffers: Iterable[int]) -> int:
        """Return the bytes of some buffers."""
        return int(self._sizes[list(buffers)].sum())

    def bytes_of(self, draw: int, buffer: int) -> Array:
        """Return one draw's copy of a buffer as writable bytes."""
        start = self._starts[buffer]
        return self._space[draw, start : start + self._sizes[buffer]]

    def tensor(self, draw: int, view: View) -> torch.Tensor:
        """Return one draw's strided tensor in a buffer; it shares the memory."""
        if not view.elements:
            return torch.empty(view.shape, dtype=getattr(torch, view.dtype))
        start = int(self._starts[view.buffer]) + view.offset_bytes
        size = DTYPE_BYTES[view.dtype]
        usable = (self._space.shape[1] - start) // size * size
        flat = torch.from_numpy(self._space[draw, start : start + usable]).view(getattr(torch, view.dtype))
        return flat.as_strided(view.shape, view.strides)

    def load(self, address: Array, mask: Array | None, dtype: TritonType, lanes: LaneGroup) -> Array:
        """Load values in register format; masked lanes read zero, as in compiled code."""
        stored = format_of(dtype).stored
        address, mask = _together(address, mask)
        self._count(address, mask, stored, lanes)
        if len(address) == 1:
            raw = self._gather(address[0], None if mask is None else mask[0], stored, lanes.draws)
        else:
            rows = [
                self._gather(address[row], None if mask is None else mask[row], stored, lanes.draws[row : row + 1])
                for row in range(len(address))
            ]
            raw = np.concatenate(rows)
        return decode(raw, dtype)

    def store(self, address: Array, data: Array, mask: Array | None, dtype: TritonType, lanes: LaneGroup) -> None:
        """Store values in register format. If several lanes store to one address, the last program wins."""
        raw = encode(data, dtype)
        address, mask = _together(address, mask)
        self._count(address, mask, raw.dtype, lanes)
        shape = np.broadcast_shapes(address.shape[1:], raw.shape[1:])
        values = np.broadcast_to(raw, (len(lanes.draws), *shape))
        address = np.broadcast_to(address, (len(address), *shape))
        if mask is not None:
            mask = np.broadcast_to(mask, address.shape)
        if len(address) == 1:
            self._scatter(address[0], values, None if mask is None else mask[0], lanes.draws)
            return
        for row in range(len(address)):
            draws = lanes.draws[row : row + 1]
            self._scatter(address[row], values[row : row + 1], None if mask is None else mask[row], draws)

    def update(
        self,
        address: Array,
        operands: Sequence[Array],
        mask: Array | None,
        dtype: TritonType,
        lanes: LaneGroup,
        function: Callable[..., Array],
    ) -> Array:
        """Read, modify and write one lane after another. Returns the value that each lane found.

        `function` maps the stored value and the lane's operands, in register format, to the value to write.
        """
        block = np.broadcast_shapes(address.shape[2:], *(operand.shape[2:] for operand in operands))
        shape = (len(lanes.draws), len(lanes.programs), *block)
        active = np.broadcast_to(np.True_ if mask is None else mask, shape)
        found = np.zeros(shape, dtype=format_of(dtype).held)
        stored = format_of(dtype).stored
        whole = np.broadcast_to(address, shape)
        for _ in range(2):  # One read, one write.
            self._count(whole, active, stored, lanes)
        for row, draw in enumerate(lanes.draws):
            index = self._locate(whole[row][active[row]], stored.itemsize)
            given = [np.broadcast_to(operand, shape)[row][active[row]] for operand in operands]
            seen = np.zeros(index.shape, dtype=found.dtype)
            for turn in _turns(index):
                seen[turn] = decode(self._read(stored, draw[None], index[turn])[0], dtype)
                written = encode(function(seen[turn], *(operand[turn] for operand in given)), dtype)
                self._write(stored, draw[None], index[turn], written[None])
            found[row][active[row]] = seen
        return found

    def forget(self) -> None:
        """Commit all work since the last `forget` or `undo`."""
        self._writes.clear()
        self._kept = replace(self.meter)

    def undo(self) -> None:
        """Undo all work since the last `forget` or `undo`."""
        for write in reversed(self._writes):
            self._space.view(write.dtype)[write.draws[:, None], write.index] = write.old
        self._writes.clear()
        self.meter = replace(self._kept)

    def _count(self, address: Array, mask: Array | None, stored: np.dtype[np.generic], lanes: LaneGroup) -> None:
        """Meter an access of one draw; every program performs an access that all share."""
        active = address.size if mask is None else int(np.count_nonzero(mask))
        repeats = len(lanes.programs) / address.shape[1] / len(address) * self.meter.weight
        self.meter.moved_bytes += active * repeats * stored.itemsize

    def _gather(self, address: Array, mask: Array | None, stored: np.dtype[np.generic], draws: Array) -> Array:
        if mask is None or mask.all():
            index = self._locate(address, stored.itemsize)
            return self._read(stored, draws, index.reshape(-1)).reshape(len(draws), *address.shape)
        raw = np.zeros((len(draws), *address.shape), dtype=stored)
        raw[:, mask] = self._read(stored, draws, self._locate(address[mask], stored.itemsize))
        return raw

    def _scatter(self, address: Array, values: Array, mask: Array | None, draws: Array) -> None:
        if mask is None or mask.all():
            index = self._locate(address, values.itemsize).reshape(-1)
            self._write(values.dtype, draws, index, values.reshape(len(draws), -1))
        else:
            self._write(values.dtype, draws, self._locate(address[mask], values.itemsize), values[:, mask])

    def _read(self, stored: np.dtype[np.generic], draws: Array, index: Array) -> Array:
        view = self._space.view(stored)
        raw: Array = np.take(view, index, axis=1) if len(draws) == len(view) else view[draws[:, None], index]
        return raw if len(self._tiles) == 1 else np.where(raw == 0, self._tiled(stored, index), raw)

    def _tiled(self, stored: np.dtype[np.generic], index: Array) -> Array:
        """Return the content of buffers with a tile at element indices; zeros for other buffers."""
        place = index.astype(np.int64) * stored.itemsize
        buffer = np.searchsorted(self._starts, place, side="right") - 1
        offset = place - self._starts[buffer]
        within = (offset + self._turns[offset // TILE_BYTES]) % TILE_BYTES // stored.itemsize
        return np.asarray(self._tiles.view(stored)[self._tile_of[buffer], within])

    def _write(self, stored: np.dtype[np.generic], draws: Array, index: Array, values: Array) -> None:
        self._writes.append(_Write(stored, draws, index, self._read(stored, draws, index)))
        self._space.view(stored)[draws[:, None], index] = values

    def _locate(self, address: Array, size: int) -> Array:
        """Check addresses and return their element indices."""
        if address.size == 0:
            return address
        low, high = int(address.min()), int(address.max())
        position = int(np.searchsorted(self._lows, low, side="right")) - 1
        number, base = self._numbers[position], int(self._lows[position])
        if position >= 0 and high - base + size <= self._sizes[number]:
            place = address + (int(self._starts[number]) - base)
        else:
            place = self._locate_each(address, size)
        if int(np.bitwise_or.reduce(place, axis=None)) & (size - 1):
            raise OutOfBounds(f"accesses {size} bytes at an address that is no multiple of {size}")
        return place >> (size.bit_length() - 1)

    def _locate_each(self, address: Array, size: int) -> Array:
        position = np.searchsorted(self._lows, address, side="right") - 1
        number = self._numbers[np.maximum(position, 0)]
        offset = address - self._bases[number]
        stray = (position < 0) | (offset + size > self._sizes[number])
        if stray.any():
            raise OutOfBounds(self._describe(int(address[stray].reshape(-1)[0]), size))
        return np.asarray(offset + self._starts[number])

    def _describe(self, address: int, size: int) -> str:
        """Describe a stray access by the nearest buffer."""
        far = np.maximum(self._bases - address, address - self._bases - self._sizes)
        number = int(far.argmin())
        if far[number] > ADDRESS_BYTES:
            return f"uses address {address:#x}, which is in no buffer"
        offset, elements = address - int(self._bases[number]), int(self._sizes[number]) // size
        return f"accesses element {offset // size} of {self._names[number]}, which holds {elements}"


def _scatter_buffers(sizes: Array, is_near: bool) -> tuple[Array, Array]:
    """Draw the order of buffers and their addresses at random."""
    secret = SystemRandom()
    numbers = np.array(secret.sample(range(len(sizes)), len(sizes)), dtype=np.int64)
    room = (ADDRESS_BYTES - int(sizes.sum())) // max(1, len(sizes))
    lows, end = np.zeros(len(sizes), dtype=np.int64), FIRST_ADDRESS
    for position, number in enumerate(numbers):
        aligned = secret.choice(ALIGNMENTS)
        far = (min(LEAST_GAP_BYTES, room - 2 * aligned), room - aligned)
        chosen = end + secret.randrange(*(NEAR_GAP_BYTES if is_near and position else far))
        lows[position] = -(-chosen // aligned) * aligned
        end = int(lows[position] + sizes[number])
    return numbers, lows


def _together(address: Array, mask: Array | None) -> tuple[Array, Array | None]:
    """Broadcast address and mask to one shape."""
    if mask is None:
        return address, None
    shape = np.broadcast_shapes(address.shape, mask.shape)
    return np.broadcast_to(address, shape), np.broadcast_to(mask, shape)


def _turns(index: Array) -> list[Array]:
    """Split positions into turns: no turn touches a place twice, and equal places keep their order."""
    if len(np.unique(index)) == len(index):
        return [np.arange(len(index))]
    order = np.argsort(index, kind="stable")
    counter = np.arange(len(index))
    starts = np.where(np.concatenate([[True], np.diff(index[order]) != 0]), counter, 0)
    rank = counter - np.maximum.accumulate(starts)
    by_rank = np.argsort(rank, kind="stable")
    return np.split(order[by_rank], np.cumsum(np.bincount(rank))[:-1])
