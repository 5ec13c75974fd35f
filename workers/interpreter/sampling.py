"""Which programs of a launch and which turns of its loops stand for all of them: drawn by lot, a layer at a time.

Whoever writes a kernel can have some of its programs or turns do nothing. Where they stand must not follow from the
shape alone, so the lot is seeded with what nobody knows while he writes; and it falls the same whenever it is asked.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

PAIRS = 4
"""Pairs of programs that stand for a launch, where all of them do about the same."""
MOST_PAIRS = 32
"""Pairs where they do not."""
TURNS = 4
"""Turns that stand for a loop; more where there are fewer than `PAIRS`, so that as many are drawn in all."""
SPREAD = 64
"""Programs that are looked at for whether the pairs have missed what few of them do."""
GROUPS = 8
"""Groups of them, each of which goes through turns of its own."""
FEW_TURNS = 2
"""Turns that stand for a loop there."""

Drawn = list[tuple[tuple[int, ...], float]]
"""Groups of programs, and for how many each of theirs stands."""


class LoopSample:
    """Draws turns of the loops of one pair of programs.

    Args:
        seed: What decides.
        turns: How many stand for a loop.
    """

    def __init__(self, seed: str, turns: int) -> None:
        self._seed = seed
        self._most = turns
        self.again()

    def again(self) -> None:
        """Start over: programs that are run again, as they disagreed, go through the same turns as before."""
        self._random = Random(self._seed)

    def turns(self, count: int) -> Sequence[tuple[int, int]]:
        """Turns of a loop of so many, in order, and for how many each stands."""
        return layers(self._random, count, self._most)


def layers(random: Random, count: int, most: int) -> list[tuple[int, int]]:
    """One number out of each of at most so many layers of `range(count)`, and how many numbers its layer has."""
    edges = [count * number // most for number in range(most + 1)] if count > most else list(range(count + 1))
    return [(random.randrange(low, high), high - low) for low, high in pairwise(edges)]


def draw_pairs(seed: str, programs: int, most: int) -> Drawn:
    """Pairs of programs that mirror each other, so that causal triangles average out, and for how many each stands.

    Args:
        seed: What decides.
        programs: Of the launch; where their number is odd, the one in the middle is a pair of its own.
        most: Pairs to draw.
    """
    drawn = layers(Random(seed), (programs + 1) // 2, most)
    return [(tuple(sorted({lower, programs - 1 - lower})), share) for lower, share in drawn]


def draw_spread(seed: str, programs: int) -> Drawn:
    """Many programs, one of each layer, in groups that are spread over the grid."""
    chosen = [number for number, _ in layers(Random(seed), programs, SPREAD)]
    groups = (tuple(chosen[first::GROUPS]) for first in range(GROUPS))
    return [(group, programs / len(chosen)) for group in groups if group]
