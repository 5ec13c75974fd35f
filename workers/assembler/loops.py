"""Which stretches of a kernel's text are its innermost loops; any assembly's."""

from collections.abc import Iterable, Sequence


def innermost(jumps_back: Iterable[tuple[int, int]], accesses: Sequence[int]) -> list[range]:
    """Stretches that are run again and again and access global memory, and hold no other such stretch.

    Loops that access nothing, such as those that wait for a copy, are no loops here.

    Args:
        jumps_back: Position of a label, and of a jump to it from below.
        accesses: Positions of instructions that access global memory.
    """
    ends: dict[int, int] = {}
    for start, end in jumps_back:
        ends[start] = max(end, ends.get(start, end))
    loops = [range(start, end + 1) for start, end in ends.items()]
    loops = [loop for loop in loops if any(place in loop for place in accesses)]
    return [loop for loop in loops if not any(other != loop and _holds(loop, other) for other in loops)]


def _holds(loop: range, other: range) -> bool:
    return loop.start <= other.start and other.stop <= loop.stop
