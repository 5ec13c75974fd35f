"""Contenders in a recorded space: our search with and without its parts, and others with the same proposals.

A contender is asked for a kernel and told what it is worth, again and again. One that was asked for before costs
nothing, as in the service, where equal sources are one candidate.
"""

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from math import log2

from archive.records import SelectableElite
from archive.selection import select
from benchmarks.recorded_space import JOINT, RecordedKernel, RecordedSpace
from service.emitters.bandit import ArmStats, draw
from service.generation.emitter_stats import WINDOW
from service.generation.screening import BLIND_SHARE, SEEN, STARTS, TAKEN
from service.generation.surrogate import Features, Surrogate, features

PATIENCE = 20
"""Failures in a row after which hill climbing starts anew."""


Made = tuple[RecordedKernel, str, RecordedKernel]
"""A kernel, the move that leads there, and from where."""


class Contender(ABC):
    """One way to search a space.

    Args:
        space: Where.
        seed: Of its chance.
    """

    def __init__(self, space: RecordedSpace, seed: int) -> None:
        self.space = space
        self.rng = random.Random(f"{type(self).__name__} {seed}")

    @abstractmethod
    def ask(self) -> RecordedKernel:
        """The next kernel to judge; may be one that was judged before."""

    @abstractmethod
    def tell(self, kernel: RecordedKernel) -> None:
        """Record the result: its objective and readings may be used from now on."""


class BestOfN(Contender):
    """Draws from the whole space and keeps the best."""

    def ask(self) -> RecordedKernel:
        """Any kernel."""
        return self.space.draw(self.rng)

    def tell(self, kernel: RecordedKernel) -> None:
        """It learns nothing."""


class HillClimbing(Contender):
    """Moves from the best so far; after `PATIENCE` failures in a row it starts anew anywhere."""

    def __init__(self, space: RecordedSpace, seed: int) -> None:
        super().__init__(space, seed)
        self._at: RecordedKernel = space.seed
        self._failures = 0

    def ask(self) -> RecordedKernel:
        """A neighbour, or a new start."""
        if self._failures >= PATIENCE:
            self._failures = 0
            self._at = self.space.draw(self.rng)
            return self._at
        move = self.space.tune if self.rng.random() < 0.5 else self.space.rewrite
        found = move(self._at, self.rng)
        self._failures += 1
        return found or self.space.draw(self.rng)

    def tell(self, kernel: RecordedKernel) -> None:
        """Go there if it is better."""
        if (kernel.objective or 0.0) > (self._at.objective or 0.0):
            self._at, self._failures = kernel, 0


class KernelreefSearch(Contender):
    """The service's loop: a grid of elites, choices of parents, a bandit over moves, a screen before judging.

    Args:
        space: Where.
        seed: Of its chance.
        bandit: Whether moves get turns by what they brought; without it all are alike.
        screened: Whether the screen chooses among ways, but for some proposals that it does not see.
    """

    moves = ("tune", "rewrite", "cross")

    def __init__(self, space: RecordedSpace, seed: int, *, bandit: bool = True, screened: bool = False) -> None:
        super().__init__(space, seed)
        self._bandit = bandit
        self._screened = screened
        self._seen: deque[tuple[Features, float | None]] = deque(maxlen=SEEN)
        self._gone: set[tuple[int, str | int]] = set()
        self._tunings: dict[int, list[RecordedKernel]] = {}
        self._elites: dict[int, RecordedKernel] = {}
        self._visits: dict[int, int] = {}
        self._accounts: dict[str, deque[float | None]] = {move: deque(maxlen=WINDOW) for move in self.moves}
        self._move = ""
        self._judged: set[int] = set()
        self.screened_out = 0

    def ask(self) -> RecordedKernel:
        """The seed first; then the way that the screen hopes most of, or a proposal."""
        if not self._elites:
            return self.space.seed
        screened = self._screened and self.rng.random() >= BLIND_SHARE
        made = (self._best_way() if screened else None) or self._propose()
        if made is None:
            self._move = ""
            return self.space.draw(self.rng)
        kernel, self._move, parent = made
        self._visits[parent.cell or 0] = self._visits.get(parent.cell or 0, 0) + 1
        return kernel

    def tell(self, kernel: RecordedKernel) -> None:
        """Offer it to its cell; account for the move."""
        if kernel.number in self._judged:
            return
        self._judged.add(kernel.number)
        if self._move:
            self._seen.append((_features(kernel.path, kernel.parameters), kernel.objective))
        holder = None if kernel.cell is None else self._elites.get(kernel.cell)
        held = 0.0 if holder is None else holder.objective or 0.0
        won = kernel.cell is not None and (kernel.objective or 0.0) > held
        if kernel.cell is not None and won:
            self._elites[kernel.cell] = kernel
            self._visits[kernel.cell] = 0
        if self._move:
            self._accounts[self._move].append((kernel.objective or 0.0) - held if won else None)

    def _propose(self) -> Made | None:
        holders = [
            SelectableElite(cell, str(kernel.number), 0, "", kernel.objective or 0.0, self._visits.get(cell, 0))
            for cell, kernel in sorted(self._elites.items())
        ]
        chosen = select(holders, self.rng, self._visits)
        if chosen is None:
            return None
        parent = self._elites[chosen.cell]
        move = self._next_move()
        if move == "cross":
            found = self.space.cross(parent, self.rng.choice(list(self._elites.values())), self.rng)
        else:
            found = (self.space.tune if move == "tune" else self.space.rewrite)(parent, self.rng)
        return None if found is None else (found, move, parent)

    def _next_move(self) -> str:
        if not self._bandit:
            return self.rng.choice(self.moves)
        accounts = {}
        for move, seen in self._accounts.items():
            gains = [item for item in seen if item is not None]
            accounts[move] = ArmStats(len(seen), float(len(seen)), len(gains), sum(gains))
        return draw(accounts, self.moves, self.rng)

    def _best_way(self) -> Made | None:
        """The way on from the best elites that the model hopes most of, of those that lead to something new.

        A rule's way is told by the numbers of its parent, as in the service: which numbers it leads to is chance.
        """
        model = Surrogate(list(self._seen))
        if not model.is_ready:
            return None
        starts = sorted(self._elites.values(), key=lambda kernel: (-(kernel.objective or 0.0), kernel.number))
        edits = [edit for start in starts[:STARTS] for edit in self._ways(start)]
        scores = model.acquisition([known for *_, known in edits])
        order = sorted(range(len(edits)), key=lambda place: -scores[place])
        for place in order[:TAKEN]:
            start, goal, _ = edits[place]
            self._gone.add((start.number, goal))
            move = "tune" if isinstance(goal, int) else "rewrite"
            leads = self.space.rewritings(start, goal) if isinstance(goal, str) else [self.space.kernels[goal]]
            kernel = self.rng.choice(leads)
            if kernel.number not in self._judged:
                self.screened_out += len(edits) - 1
                return kernel, move, start
        return None

    def _ways(self, start: RecordedKernel) -> Iterator[tuple[RecordedKernel, str | int, Features]]:
        """Kernels and templates that are one move away, with what is known of them before that."""
        if start.number not in self._tunings:
            self._tunings[start.number] = self.space.tunings(start)
        for kernel in self._tunings[start.number]:
            if kernel.number not in self._judged:
                yield start, kernel.number, _features(kernel.path, kernel.parameters)
        for template in self.space.beside(start):
            if (start.number, template) not in self._gone:
                yield start, template, _features(self.space.templates[template].path, start.parameters)


def _features(path: str, parameters: Mapping[str, int]) -> Features:
    return features(parameters, sorted(set(path.split(JOINT))))


def embed(space: RecordedSpace) -> list[list[float]]:
    """Every kernel as a vector, for those that search vectors: its rules, and the logarithms of its parameters."""
    rules = sorted({rule for kernel in space.kernels for rule in kernel.path.split(JOINT)})
    names = sorted({name for kernel in space.kernels for name in kernel.parameters})
    rows = []
    for kernel in space.kernels:
        mine = kernel.path.split(JOINT)
        values = [log2(max(1, kernel.parameters[name])) / 4 if name in kernel.parameters else 0.0 for name in names]
        rows.append([float(rule in mine) for rule in rules] + values)
    return rows
