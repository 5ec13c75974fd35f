"""From a report to a place in the archive: objective, coordinates, cell, offer.

On `model` and `recorded` devices figures do not change between runs, so a strictly greater objective wins its cell
without a confirm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

from archive.descriptors import coordinates
from archive.grid import Grid
from archive.records import Candidate, Offer, Placement, Search
from archive.store import Store
from service.events import ElitePromoted, Events
from workers.protocol import Outcome, Report, Shape, ShapeRole


@dataclass(frozen=True)
class Speedup:
    """Baseline time over candidate time: weighted geometric mean over the benchmark shapes, with its bounds."""

    low: float
    mid: float
    high: float


def times_us(report: Report) -> dict[str, float]:
    """Middle time of each benchmark shape in a report, microseconds by shape key."""
    return {result.shape: result.mid_us for result in report.shapes if result.mid_us is not None}


def speedup(report: Report, baseline_us: Mapping[str, float], weights: Mapping[str, float]) -> Speedup | None:
    """How much faster the candidate is than the baseline, or None if a benchmark shape has no time.

    Args:
        report: Of a correct variant.
        baseline_us: Best baseline time by shape key, microseconds.
        weights: Weight by shape key; its keys are the benchmark shapes.
    """
    results = {result.shape: result for result in report.shapes}
    low = mid = high = 0.0
    for shape, weight in weights.items():
        result, base = results.get(shape), baseline_us.get(shape)
        if base is None or result is None or not (result.mid_us and result.low_us and result.high_us):
            return None
        low += weight * log(base / result.high_us)
        mid += weight * log(base / result.mid_us)
        high += weight * log(base / result.low_us)
    total = sum(weights.values())
    return Speedup(exp(low / total), exp(mid / total), exp(high / total))


def benchmark_weights(search: Search) -> dict[str, float]:
    """Weight of each benchmark shape of a search, by shape key."""
    shapes = (Shape.model_validate(shape) for shape in search.shapes)
    return {shape.key: shape.weight for shape in shapes if shape.role is ShapeRole.BENCHMARK}


def first_benchmark(search: Search) -> int:
    """Position of the first benchmark shape among a search's shapes: coordinates use its readings."""
    return next(i for i, shape in enumerate(search.shapes) if shape["role"] == ShapeRole.BENCHMARK)


class Promotion:
    """Offers correct variants to their cells and announces what was placed."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events

    async def consider(
        self, search: Search, candidate: Candidate, report: Report, baseline_us: Mapping[str, float]
    ) -> None:
        """Offer the variant that a report is about, if it is correct and every benchmark shape has a time.

        Idempotent by the report's job.
        """
        gain = speedup(report, baseline_us, benchmark_weights(search)) if report.outcome is Outcome.CORRECT else None
        if gain is None:
            return
        readings = (await self._store.bundles.get(report.bundle)).readings[first_benchmark(search)]
        offer = self._offer(search, candidate, report, gain, coordinates(readings))
        if offer is not None:
            await self._place(offer)

    def _offer(
        self, search: Search, candidate: Candidate, report: Report, gain: Speedup, where: Mapping[str, Any]
    ) -> Offer | None:
        cell = Grid(search.axes).index(where)
        if cell is None:
            return None
        return Offer(
            search=search.id,
            device=report.device.name,
            axes_version=search.axes_version,
            cell=cell,
            coordinates=where,
            candidate=candidate.id,
            variant=report.variant,
            bundle=report.bundle,
            job=report.job,
            emitter=candidate.emitter,
            objective=gain.low,
            low=gain.low,
            mid=gain.mid,
            high=gain.high,
        )

    async def _place(self, offer: Offer) -> None:
        placement = await self._store.elites.offer(offer)
        if placement in (Placement.NEW, Placement.IMPROVED):
            self._events.publish(
                ElitePromoted(
                    search=offer.search,
                    device=offer.device,
                    cell=offer.cell,
                    candidate=offer.candidate,
                    objective=offer.objective,
                    placement=placement.value,
                )
            )
