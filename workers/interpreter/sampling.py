"""Stratified random choice of the programs of a launch and the loop iterations that represent all of them.

A kernel can let some of its programs or iterations do nothing, so the choice must not depend on the shape alone. Its
seed is unknown to the kernel's author, and the same seed gives the same choice.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

PAIRS = 4
"""Number of pairs of programs that represent a launch whose programs do about the same work."""
MOST_PAIRS = 32
"""Number of pairs otherwise."""
TURNS = 4
"""Iterations that represent a loop; with fewer pairs than `PAIRS` more, so that the total stays the same."""
SPREAD = 64
"""Number of spread programs that show work which the pairs have missed."""
GROUPS = 8
"""Number of groups of spread programs; each group draws its own iterations."""
FEW_TURNS = 2
"""Iterations that represent a loop in spread programs."""

Drawn = list[tuple[tuple[int, ...], float]]
"""Groups of programs, and the number of programs that each member represents."""


class LoopSample:
    """Random choice of loop iterations for one group of programs.

    Args:
        seed: Seed of the choice.
        turns: Number of iterations that represent a loop.
    """

    def __init__(self, seed: str, turns: int) -> None:
        self._seed = seed
        self._most = turns
        self.again()

    def again(self) -> None:
        """Start over: programs that are run again after a divergence take the same iterations."""
        self._random = Random(self._seed)

    def turns(self, count: int) -> Sequence[tuple[int, int]]:
        """Choose from `count` iterations. Returns them in order, each with the number that it represents."""
        return layers(self._random, count, self._most)


def layers(random: Random, count: int, most: int) -> list[tuple[int, int]]:
    """Draw one number from each of at most `most` layers of `range(count)`. Returns each with its layer's size."""
    edges = [count * number // most for number in range(most + 1)] if count > most else list(range(count + 1))
    return [(random.randrange(low, high), high - low) for low, high in pairwise(edges)]


def draw_pairs(seed: str, programs: int, most: int) -> Drawn:
    """Draw pairs of programs that mirror each other, so that causal triangles average out.

    Args:
        seed: Seed of the choice.
        programs: Number of programs of the launch; if it is odd, the one in the middle is a pair of its own.
        most: Maximum number of pairs.
    """
    drawn = layers(Random(seed), (programs + 1) // 2, most)
    return [(tuple(sorted({lower, programs - 1 - lower})), share) for lower, share in drawn]


def draw_spread(seed: str, programs: int) -> Drawn:
    """Draw many programs, one per layer, in groups that are spread over the grid."""
    chosen = [number for number, _ in layers(Random(seed), programs, SPREAD)]
    groups = (tuple(chosen[first::GROUPS]) for first in range(GROUPS))
    return [(group, programs / len(chosen)) for group in groups if group]
