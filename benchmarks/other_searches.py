"""Others' search in a recorded space: a scheduler of pyribs, and OpenEvolve's database and sampling.

Both are their own packages, as they are: `pip install ribs openevolve`. What is not installed does not compete.
"""

import logging
import random
import warnings
from collections import deque
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from archive.descriptors import DESCRIPTORS
from benchmarks.contenders import Contender, embed
from benchmarks.recorded_space import RecordedKernel, RecordedSpace

PARTS_OF_RIBS = ("archives", "emitters", "schedulers")
BATCH = 8
"""Solutions that each of pyribs' emitters proposes at once."""
SIGMA = 0.3
"""Size of pyribs' steps: in an embedding where a rule counts 1 and a power of two 1/4, that is one or two moves."""
FAILED = -1.0
"""Objective of a failing kernel for pyribs; objectives are positive."""


def installed() -> list[str]:
    """Which of them can compete here."""
    return [name for name in ("ribs", "openevolve") if find_spec(name)]


class PyribsSearch(Contender):
    """A `Scheduler` with a Gaussian and an iso-line emitter over a `GridArchive` of our axes.

    Solutions are vectors; the kernel that is judged is the nearest one recorded.
    """

    def __init__(self, space: RecordedSpace, seed: int) -> None:
        super().__init__(space, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archives, emitters, schedulers = (import_module(f"ribs.{name}") for name in PARTS_OF_RIBS)
        self._vectors = np.array(embed(space))
        start = self._vectors[space.seed.number]
        bins = [axis.bins for axis in space.grid.axes]
        ranges = [(-0.5, count - 0.5) for count in bins]
        archive = archives.GridArchive(solution_dim=len(start), dims=bins, ranges=ranges, seed=seed)
        ways = [
            emitters.GaussianEmitter(archive, sigma=SIGMA, x0=start, batch_size=BATCH, seed=seed),
            emitters.IsoLineEmitter(archive, x0=start, iso_sigma=SIGMA / 2, batch_size=BATCH, seed=seed + 1),
        ]
        self._scheduler = schedulers.Scheduler(archive, ways)
        self._asked: deque[RecordedKernel] = deque()
        self._batch: list[RecordedKernel] = []

    def ask(self) -> RecordedKernel:
        """The next of a batch; a whole batch is told at once."""
        if not self._asked:
            if self._batch:
                self._scheduler.tell(
                    [FAILED if kernel.objective is None else kernel.objective for kernel in self._batch],
                    [self.space.grid.bins(kernel.cell or 0) for kernel in self._batch],
                )
            found = [self._nearest(solution) for solution in self._scheduler.ask()]
            self._batch, self._asked = found, deque(found)
        return self._asked.popleft()

    def tell(self, kernel: RecordedKernel) -> None:
        """See `ask`."""

    def _nearest(self, solution: Any) -> RecordedKernel:
        return self.space.kernels[int(np.argmin(((self._vectors - solution) ** 2).sum(axis=1)))]


class OpenEvolveSearch(Contender):
    """`ProgramDatabase` with its islands, archive and sampling, on our axes; our moves stand for a model's diffs."""

    def __init__(self, space: RecordedSpace, seed: int) -> None:
        super().__init__(space, seed)
        config, database = import_module("openevolve.config"), import_module("openevolve.database")
        logging.getLogger("openevolve").setLevel(logging.CRITICAL)
        self._program = database.Program
        self._axes = [axis.descriptor for axis in space.grid.axes]
        random.seed(seed)  # It draws from the module's own generator.
        self._database = database.ProgramDatabase(
            config.DatabaseConfig(feature_dimensions=self._axes, random_seed=seed, log_prompts=False)
        )
        self._state = random.getstate()
        self._turn = 0
        self._parent: str | None = None

    def ask(self) -> RecordedKernel:
        """A move from what its island samples."""
        if not self._turn:
            return self.space.seed
        random.setstate(self._state)
        parent, inspirations = self._database.sample_from_island(self._turn % len(self._database.islands))
        self._state = random.getstate()
        self._parent = parent.id
        kernel = self._kernel(parent)
        move = self.rng.choice(("tune", "rewrite", "cross"))
        if move == "cross" and inspirations:
            found = self.space.cross(kernel, self._kernel(self.rng.choice(inspirations)), self.rng)
        else:
            found = (self.space.rewrite if move == "rewrite" else self.space.tune)(kernel, self.rng)
        return found or self.space.draw(self.rng)

    def tell(self, kernel: RecordedKernel) -> None:
        """Add it as a program to the island of its parent."""
        random.setstate(self._state)
        island = self._turn % len(self._database.islands)
        readings = {name: DESCRIPTORS[name].value(kernel.readings) or 0.0 for name in self._axes}
        program = self._program(
            id=str(self._turn),
            code=f"{kernel.path} {dict(kernel.parameters)}",
            parent_id=self._parent,
            metrics={"combined_score": kernel.objective or 0.0, **readings},
            metadata={"kernel": kernel.number},
        )
        self._database.add(program, iteration=self._turn, target_island=island)
        self._database.increment_island_generation(island)
        if self._database.should_migrate():
            self._database.migrate_programs()
        self._state = random.getstate()
        self._turn += 1

    def _kernel(self, program: Any) -> RecordedKernel:
        return self.space.kernels[program.metadata["kernel"]]
