"""Innermost loops of a kernel's text: the places that every iteration passes. For any assembly language."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workers.assembler.machine import ACCESSES


@dataclass(frozen=True, slots=True)
class LoopFlow:
    """Control flow of a text between numbered places.

    Attributes:
        jumps: Targets of jumps, by the places of the jumps.
        ends: Places after which the next one does not run: unconditional jumps and returns.
    """

    jumps: Mapping[int, int]
    ends: Collection[int]

    @property
    def jumps_back(self) -> list[tuple[int, int]]:
        """Backward jumps, each as its target and its place."""
        return [(target, place) for place, target in self.jumps.items() if target <= place]

    def turns(self, classes: Sequence[str]) -> list[int]:
        """Return the places that one iteration passes, of innermost loops that access global memory.

        If a loop can iterate and load without its stores, it stores only occasionally, as flattened loops over tiles
        do. The path to such stores does not count.

        Args:
            classes: Class of the instruction at each place; empty where there is none.
        """
        loads, stores = ({place for place, name in enumerate(classes) if name == wanted} for wanted in ACCESSES)
        return [
            place for loop in innermost(self.jumps_back, loads | stores) for place in self._turn(loop, loads, stores)
        ]

    def _turn(self, loop: range, loads: set[int], stores: set[int]) -> list[int]:
        if loop.start in stores or stores.isdisjoint(loop):
            return list(loop)
        paths = {place: self._after(place, loop, stores) for place in loop if place not in stores}
        origins: dict[int, list[int]] = {place: [] for place in paths}
        for place, found in paths.items():
            for after in found:
                origins[after].append(place)
        again = _reached(paths, loop.start) & _reached(origins, loop.start)
        return sorted(again) if len(again) > 1 and again & loads else list(loop)

    def _after(self, place: int, loop: range, without: Collection[int]) -> list[int]:
        goals = [self.jumps[place]] if place in self.jumps else []
        goals += [] if place in self.ends else [place + 1]
        return [goal for goal in goals if goal in loop and goal not in without]


def innermost(jumps_back: Iterable[tuple[int, int]], accesses: Collection[int]) -> list[range]:
    """Return the loops that access global memory and contain no other such loop.

    Loops without accesses, such as those that wait for a copy, do not count.

    Args:
        jumps_back: Place of a label, and of a jump to it from below.
        accesses: Places of instructions that access global memory.
    """
    ends: dict[int, int] = {}
    for start, end in jumps_back:
        ends[start] = max(end, ends.get(start, end))
    loops = [range(start, end + 1) for start, end in ends.items()]
    loops = [loop for loop in loops if any(place in loop for place in accesses)]
    return [loop for loop in loops if not any(other != loop and _holds(loop, other) for other in loops)]


def _holds(loop: range, other: range) -> bool:
    return loop.start <= other.start and other.stop <= loop.stop


def _reached(paths: Mapping[int, Sequence[int]], start: int) -> set[int]:
    """Return the places that are reachable from one, including itself."""
    found, left = {start}, [start]
    while left:
        for after in paths[left.pop()]:
            if after not in found:
                found.add(after)
                left.append(after)
    return found
