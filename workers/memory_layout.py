"""Memory layout of runs: slots in the runner's arena, at random distances, with red zones around every buffer.

Pure arithmetic on offsets: the executor places slots, the runner replays in them, and the oracle inspects them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import lcm, prod
from random import Random

from workers.commands import ByteRange, RunSlot
from workers.protocol import Bundle, Operator, Plan

ALIGNMENT = 256
"""Bytes that every buffer is aligned to, as `cudaMalloc` does; what a trace assumes about pointers."""
ZONE_BYTES = 65536
"""Least bytes of a wide red zone: further than an index off by one tile reaches. Half of checked runs have them."""
SMALL_ZONE_BYTES = 4096
"""Least bytes of a red zone in timed slots, of which there are hundreds at once, and in the other half of checked runs:
by the distance of its buffers a kernel is not to know whether it is timed."""
JITTER = 64
"""Most steps of `ALIGNMENT` bytes by which a buffer is moved on at random, so that no two runs have one layout."""


class ArenaFull(Exception):
    """The arena is too small for a plan."""


@dataclass(frozen=True)
class MemoryPiece:
    """Memory that a run needs: so many bytes, at a multiple of `alignment`."""

    bytes: int
    alignment: int = ALIGNMENT


def pieces_of(
    bundle: Bundle, plan: Plan
) -> tuple[tuple[MemoryPiece, ...], tuple[tuple[MemoryPiece, MemoryPiece], ...]]:
    """Return the memory that a run of a plan needs: its buffers, and by launch the global and the profile scratch."""
    return tuple(MemoryPiece(buffer.bytes) for buffer in plan.buffers), tuple(_scratch(bundle, plan))


def place(
    bundle: Bundle, plan: Plan, count: int, random: Random, *, start: int, limit: int, zone_bytes: int = ZONE_BYTES
) -> tuple[RunSlot, ...]:
    """Lay out slots for a plan, one after the other, buffers of each in random order.

    Args:
        bundle: Holds the plan's kernels, whose scratch has a place too.
        plan: What will run.
        count: Number of slots.
        random: Seeded with a secret.
        start: First free byte of the arena.
        limit: End of the arena, bytes.
        zone_bytes: Least bytes of a red zone.

    Raises:
        NoRoom: If they do not fit.
    """
    buffers, scratch = pieces_of(bundle, plan)
    pieces = [*buffers, *chain.from_iterable(scratch)]
    slots = []
    for _ in range(count):
        slot = _place_one(len(buffers), pieces, random, _aligned(start), zone_bytes)
        if slot.end > limit:
            raise ArenaFull(f"{count} runs of {plan.shape.key} take more than the arena of {limit} bytes")
        slots.append(slot)
        start = slot.end
    return tuple(slots)


def slot_bytes(bundle: Bundle, plan: Plan, zone_bytes: int = ZONE_BYTES) -> int:
    """Bytes that a slot takes at most."""
    buffers, scratch = pieces_of(bundle, plan)
    needed = [*buffers, *(piece for piece in chain.from_iterable(scratch) if piece.bytes)]
    step = zone_bytes + JITTER * ALIGNMENT
    return sum(piece.bytes + piece.alignment + step for piece in needed) + zone_bytes + 2 * ALIGNMENT


def written(operator: Operator, slot: RunSlot) -> list[ByteRange]:
    """Return the ranges that a run may write to: all of its slot except red zones and immutable inputs."""
    fixed = {offset for item, offset in zip(operator.given, slot.buffers, strict=False) if not item.mutable}
    ends = (offset + size for offset, size in slot.zones)
    gaps = zip(ends, (offset for offset, _ in slot.zones[1:]), strict=False)
    return [(start, end) for start, end in gaps if start < end and start not in fixed]


def outside(whole: ByteRange, other: ByteRange) -> tuple[ByteRange, ...]:
    """Return the parts of a byte range outside another one."""
    parts = (whole[0], min(whole[1], other[0])), (max(whole[0], other[1]), whole[1])
    return tuple((start, end) for start, end in parts if start < end)


def _scratch(bundle: Bundle, plan: Plan) -> Iterator[tuple[MemoryPiece, MemoryPiece]]:
    """Each launch's global and profile scratch: recorded size x programs x CTAs."""
    for launch in plan.launches:
        kernel = bundle.kernels[launch.kernel]
        runs = prod(launch.grid) * kernel.num_ctas
        alignment = lcm(ALIGNMENT, kernel.global_scratch_align)
        yield (
            MemoryPiece(kernel.global_scratch_bytes * runs, alignment),
            MemoryPiece(kernel.profile_scratch_bytes * runs),
        )


def _place_one(buffers: int, pieces: Sequence[MemoryPiece], random: Random, start: int, zone_bytes: int) -> RunSlot:
    offsets = [-1] * len(pieces)
    zones = []
    at = start
    order = [index for index, piece in enumerate(pieces) if index < buffers or piece.bytes]
    random.shuffle(order)
    for index in order:
        moved = random.randrange(JITTER) * ALIGNMENT
        offsets[index] = _aligned(at + zone_bytes + moved, pieces[index].alignment)
        zones.append((at, offsets[index] - at))
        at = offsets[index] + pieces[index].bytes
    end = _aligned(at + zone_bytes)
    zones.append((at, end - at))
    scratch = offsets[buffers:]
    return RunSlot(
        start=start,
        end=end,
        buffers=tuple(offsets[:buffers]),
        scratch=tuple(zip(scratch[::2], scratch[1::2], strict=True)),
        zones=tuple(zones),
    )


def _aligned(offset: int, alignment: int = ALIGNMENT) -> int:
    return -(-offset // alignment) * alignment
