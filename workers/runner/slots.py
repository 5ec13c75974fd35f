"""Slots as the runner sees them: they must hold what a plan needs, and everything that is not given is poisoned."""

from itertools import chain

from workers.commands import RunSlot
from workers.memory_layout import pieces_of
from workers.protocol import Bundle, Plan

Range = tuple[int, int]
"""Offset in the arena, bytes."""


class CannotRun(Exception):
    """This card cannot run a plan; the message says why, to a person or an LLM."""


class SlotLayout:
    """The layout of every slot of a plan. The plan's first buffers, `inputs` in number, are its inputs."""

    def __init__(self, bundle: Bundle, plan: Plan) -> None:
        buffers, scratch = pieces_of(bundle, plan)
        self.inputs = sum(buffer.input is not None for buffer in plan.buffers)
        self._shape = plan.shape.key
        self._counts = len(buffers), len(scratch)
        pieces = [*buffers, *chain.from_iterable(scratch)]
        self._pieces = [
            (index, piece.bytes, piece.alignment)
            for index, piece in enumerate(pieces)
            if index < len(buffers) or piece.bytes
        ]

    def check(self, slot: RunSlot, arena_bytes: int) -> None:
        """Check a slot against the plan, so that launches on it stay inside it as far as offsets go.

        Raises:
            CannotRun: If the arena is too small for it.
            ValueError: If a piece is missing, misplaced or overlaps another: a mistake of the executor.
        """
        if slot.end > arena_bytes:
            raise CannotRun(f"a run of {self._shape} ends at byte {slot.end} of an arena of {arena_bytes}")
        if (len(slot.buffers), len(slot.scratch)) != self._counts:
            raise ValueError(f"a slot for {self._shape} has the layout of another plan")
        offsets = _offsets(slot)
        if any(offsets[index] % alignment for index, _, alignment in self._pieces):
            raise ValueError(f"a buffer in a slot for {self._shape} is not aligned")
        taken = [(offsets[index], size) for index, size, _ in self._pieces]
        end = max(0, slot.start)
        for offset, size in sorted([*taken, *slot.zones]):
            if offset < end or size < 0:
                raise ValueError(f"byte {offset} of a slot for {self._shape} is used twice, or lies outside")
            end = offset + size
        if end > slot.end:
            raise ValueError(f"a slot for {self._shape} holds {end - slot.end} bytes beyond its end")

    def poisoned(self, slot: RunSlot) -> list[Range]:
        """Return everything in a slot that a run is not given: buffers that are not inputs, and scratch."""
        offsets = _offsets(slot)
        return [(offsets[index], size) for index, size, _ in self._pieces if index >= self.inputs]


def _offsets(slot: RunSlot) -> list[int]:
    return [*slot.buffers, *chain.from_iterable(slot.scratch)]
