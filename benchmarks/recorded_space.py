"""A recorded landscape as a space to search in: kernels, the moves between them, and what each is worth.

All contenders get the same moves, which stay inside what was recorded: a draw from the whole space, other values of
a template's parameters, another template by one rule more or less, one kernel's values in the template of another.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, log2
from pathlib import Path

from archive.descriptors import coordinates
from archive.grid import Grid
from workers.landscape import Landscape, RecordedBundle, read
from workers.protocol import Outcome, ShapeRole

NEAREST = 6
"""Kernels that one move may lead to, the nearest first: a recording holds a part of each grid only."""
JOINT = " + "


@dataclass(frozen=True)
class RecordedKernel:
    """One recorded source.

    Attributes:
        number: Its place in the space.
        template: Id of its template.
        path: The rules that led to that.
        parameters: Values by name.
        bundle: Identity of its first correct bundle; None if it has none.
        speedups: Over the first seed by shape key, middle of the interval; empty unless it was correct.
        objective: Weighted geometric mean of the lower bounds over shapes, None unless it was correct.
        cell: In the grid of the default axes, None without an objective.
        readings: Of the first benchmark shape.
    """

    number: int
    template: str
    path: str
    parameters: Mapping[str, int]
    bundle: str | None
    speedups: Mapping[str, float]
    objective: float | None
    cell: int | None
    readings: Mapping[str, object]


class RecordedSpace:
    """Recorded kernels of one operator.

    Attributes:
        kernels: Those that have a verdict.
        grid: Of the axes asked for.
        provenance: Where the figures come from: `recorded` or `predicted`.
    """

    def __init__(self, landscape: Landscape, grid: Grid) -> None:
        """Take in every source with a verdict."""
        session = landscape.sessions[0]
        self.operator = session.operator
        self.device = session.device
        self.provenance = "recorded" if session.device.measures else "predicted"
        self.grid = grid
        self.templates = landscape.templates
        self._weights = {s.key: s.weight for s in session.shapes if s.role is ShapeRole.BENCHMARK}
        self._first = next(shape for shape in session.shapes if shape.role is ShapeRole.BENCHMARK)
        self._seed_us = _seed_us(landscape, self._weights)
        self.kernels: list[RecordedKernel] = []
        points = set()
        for source in landscape.sources.values():
            point = (source.template, *sorted(source.parameters.items()))
            if point in points:
                continue  # One text has its numbers as they were in the template, the other as `tune` writes them.
            points.add(point)
            bundles = [landscape.bundles.get(variant.bundle or "") for variant in source.variants]
            if source.variants and all(bundle is None for bundle in bundles) and source.outcome is Outcome.CORRECT:
                continue
            best = max((b for b in bundles if b is not None), key=self._objective_or_zero, default=None)
            self.kernels.append(self._kernel(source.template, source.parameters, best))
        self._by_template: dict[str, list[RecordedKernel]] = {}
        for kernel in self.kernels:
            self._by_template.setdefault(kernel.template, []).append(kernel)

    @cached_property
    def best(self) -> float:
        """The best objective that was recorded."""
        return max(kernel.objective for kernel in self.kernels if kernel.objective is not None)

    @cached_property
    def seed(self) -> RecordedKernel:
        """The first seed as it stands."""
        return next(kernel for kernel in self.kernels if kernel.path == "seed" and kernel.objective is not None)

    @cached_property
    def _beside(self) -> dict[str, list[str]]:
        """By template, those that one rule more or less leads to."""
        paths = {id: frozenset(self.templates[id].path.split(JOINT)) for id in self._by_template}
        return {one: [two for two in paths if len(paths[one] ^ paths[two]) == 1] for one in paths}

    def draw(self, rng: random.Random) -> RecordedKernel:
        """Any kernel."""
        return rng.choice(self.kernels)

    def tune(self, kernel: RecordedKernel, rng: random.Random) -> RecordedKernel | None:
        """Other values of its parameters; None if its template has no other kernel."""
        return _any(self.tunings(kernel), rng)

    def rewrite(self, kernel: RecordedKernel, rng: random.Random) -> RecordedKernel | None:
        """Another template beside its own, with values as near as was recorded; None if there is none."""
        beside = self._beside[kernel.template]
        return _any(self.rewritings(kernel, rng.choice(beside)), rng) if beside else None

    def cross(self, kernel: RecordedKernel, other: RecordedKernel, rng: random.Random) -> RecordedKernel | None:
        """The template of one with values near the other's."""
        return _any(_near([near for near in self._by_template[kernel.template] if near is not kernel], other), rng)

    def tunings(self, kernel: RecordedKernel) -> list[RecordedKernel]:
        """All that `tune` may lead to."""
        return _near([other for other in self._by_template[kernel.template] if other is not kernel], kernel)

    def rewritings(self, kernel: RecordedKernel, template: str) -> list[RecordedKernel]:
        """All that `rewrite` may lead to in a template beside a kernel's own."""
        return _near(self._by_template[template], kernel)

    def beside(self, kernel: RecordedKernel) -> Sequence[str]:
        """Templates that one rule more or less leads to."""
        return self._beside[kernel.template]

    def _objective_or_zero(self, bundle: RecordedBundle) -> float:
        return self._objective(bundle) or 0.0

    def _objective(self, bundle: RecordedBundle) -> float | None:
        if bundle.outcome is not Outcome.CORRECT or bundle.times.keys() < self._weights.keys():
            return None
        total = sum(self._weights.values())
        return exp(
            sum(w * log(self._seed_us[key] / bundle.times[key].high) for key, w in self._weights.items()) / total
        )

    def _kernel(self, template: str, parameters: Mapping[str, int], bundle: RecordedBundle | None) -> RecordedKernel:
        objective = None if bundle is None else self._objective(bundle)
        readings = {} if bundle is None else bundle.readings[self._first.key].model_dump(mode="json")
        speedups = (
            {}
            if bundle is None or objective is None
            else {key: self._seed_us[key] / bundle.times[key].mid for key in self._weights}
        )
        return RecordedKernel(
            number=len(self.kernels),
            template=template,
            path=self.templates[template].path,
            parameters=parameters,
            bundle=None if bundle is None else bundle.identity,
            speedups=speedups,
            objective=objective,
            cell=None if objective is None else self.grid.index(coordinates(readings)),
            readings=readings,
        )


def load(path: Path, grid: Grid) -> RecordedSpace:
    """Read a landscape's file as a space.

    Raises:
        ToolMissing: If it is none.
    """
    return RecordedSpace(read(path), grid)


def _seed_us(landscape: Landscape, weights: Mapping[str, float]) -> dict[str, float]:
    """The first seed's time in the unit of `Timed`: ratios to the pacer, or microseconds where nothing was paced."""
    for source in landscape.sources.values():
        if landscape.templates[source.template].path == "seed":
            for variant in source.variants:
                bundle = landscape.bundles.get(variant.bundle or "")
                if bundle is not None and bundle.outcome is Outcome.CORRECT and bundle.times.keys() >= weights.keys():
                    return {key: bundle.times[key].mid for key in weights}
    raise ValueError("the seed itself was not recorded: record longer")


def _near(others: Sequence[RecordedKernel], kernel: RecordedKernel) -> list[RecordedKernel]:
    """Return the kernels nearest to a kernel's values."""
    return sorted(others, key=lambda other: (distance(other.parameters, kernel.parameters), other.number))[:NEAREST]


def _any(found: Sequence[RecordedKernel], rng: random.Random) -> RecordedKernel | None:
    return rng.choice(found) if found else None


def distance(one: Mapping[str, int], two: Mapping[str, int]) -> float:
    """Return the distance of values: in powers of two over the parameters that both have."""
    return sum(abs(log2(max(1, one[name])) - log2(max(1, two[name]))) for name in one.keys() & two.keys())
