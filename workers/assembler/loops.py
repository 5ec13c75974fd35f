"""Which places of a kernel's text its innermost loops pass at every turn; any assembly's."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workers.assembler.machine import ACCESSES


@dataclass(frozen=True, slots=True)
class LoopFlow:
    """How a text goes on from place to place.

    Attributes:
        jumps: By the places of jumps, where they lead.
        ends: Places after which the next one is not run: jumps without a condition, and returns.
    """

    jumps: Mapping[int, int]
    ends: Collection[int]

    @property
    def jumps_back(self) -> list[tuple[int, int]]:
        """Where jumps lead that lead back, and the places of those jumps."""
        return [(target, place) for place, target in self.jumps.items() if target <= place]

    def turns(self, classes: Sequence[str]) -> list[int]:
        """Places in innermost loops that access global memory, as one turn passes them.

        A loop that turns and loads without what stores does so only now and then, as flattened loops over tiles do:
        what leads to such stores is no part of its turns.

        Args:
            classes: Of the instruction at each place; empty where there is none.
        """
        loads, stores = ({place for place, name in enumerate(classes) if name == wanted} for wanted in ACCESSES)
        return [
            place for loop in innermost(self.jumps_back, loads | stores) for place in self._turn(loop, loads, stores)
        ]

    def _turn(self, loop: range, loads: set[int], stores: set[int]) -> list[int]:
        if loop.start in stores or stores.isdisjoint(loop):
            return list(loop)
        ways = {place: self._after(place, loop, stores) for place in loop if place not in stores}
        origins: dict[int, list[int]] = {place: [] for place in ways}
        for place, found in ways.items():
            for after in found:
                origins[after].append(place)
        again = _reached(ways, loop.start) & _reached(origins, loop.start)
        return sorted(again) if len(again) > 1 and again & loads else list(loop)

    def _after(self, place: int, loop: range, without: Collection[int]) -> list[int]:
        goals = [self.jumps[place]] if place in self.jumps else []
        goals += [] if place in self.ends else [place + 1]
        return [goal for goal in goals if goal in loop and goal not in without]


def innermost(jumps_back: Iterable[tuple[int, int]], accesses: Collection[int]) -> list[range]:
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


def _reached(ways: Mapping[int, Sequence[int]], start: int) -> set[int]:
    """Places that ways lead to from one, itself among them."""
    found, left = {start}, [start]
    while left:
        for after in ways[left.pop()]:
            if after not in found:
                found.add(after)
                left.append(after)
    return found
