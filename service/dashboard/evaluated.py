"""Results of a variant on each device: verdict, times beside other kernels, distance from floors, and its cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archive.descriptors import coordinates
from archive.errors import RecordNotFound
from archive.grid import Grid
from archive.records import BundleRecord, EliteRecord, SearchRecord
from archive.store import Store
from service.dashboard.charts import TimeBar, bar
from service.dashboard.formatting import time_us
from service.dashboard.roofline import Roofline, roofline
from service.evaluation.figure_labels import provenance, relative_to
from service.evaluation.floors import Bound, ShapeWork, TimeFloors, floors, works
from service.evaluation.promotion import first_benchmark
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import latest_reports
from service.evaluation.speedups import benchmark_weights, completed, gain, over_pacer, times_us
from workers.protocol import Device, Operator, Ratio, Report, ShapeResult
from workers.targets import shown_figures

NEAR_FLOOR = 1.5
"""Maximum ratio of time to floor at which the floor is called the limit; above it, other costs prevail."""
LIMITS: Mapping[Bound, tuple[str, str]] = {
    "memory": ("memory bandwidth", "latency, instructions or bytes moved more than once"),
    "arithmetic": ("arithmetic", "latency, idle matrix units or memory"),
}
"""Names of the floors, and the costs that come on top of each."""


@dataclass(frozen=True)
class ShapeTimes:
    """Times at one benchmark shape.

    Attributes:
        shape: Sizes of the shape.
        bars: Times of the kernel and of others, on one scale from zero.
        pairs: Number of paired samples behind the kernel's time; 0 if it was not measured.
        floors: Time floors of the card.
        distance: Kernel's time over the higher floor; None if neither floor is known.
        share: Share of the peak bandwidth, or of the peak rate, that the kernel achieves.
        over_copy: Kernel's time over that of a plain copy of the bytes it must move; None if none was measured.
        limit: Limit of the kernel in words.
    """

    shape: str
    bars: tuple[TimeBar, ...]
    pairs: int
    floors: TimeFloors
    distance: float | None
    share: float | None
    over_copy: float | None
    limit: str


@dataclass(frozen=True)
class BaselineTimes:
    """Times of another kernel, microseconds by shape."""

    label: str
    kind: str
    times_us: Mapping[str, float]


def compare(
    report: Report, works: Mapping[str, ShapeWork], rivals: Sequence[BaselineTimes], provenance: str
) -> tuple[ShapeTimes, ...]:
    """Compare a report's times with those of other kernels.

    Args:
        report: Report on the kernel.
        works: Work by shape.
        rivals: Other kernels with times at the same shapes.
        provenance: Source of the report's times: measured, predicted or recorded.
    """
    target = shown_figures(report.device.target, report.card)
    return tuple(
        _shape(result, floors(works.get(result.shape, ShapeWork()), target), rivals, provenance)
        for result in report.shapes
        if result.mid_us is not None
    )


def _shape(result: ShapeResult, least: TimeFloors, rivals: Sequence[BaselineTimes], provenance: str) -> ShapeTimes:
    middle = result.mid_us or 0.0
    others = [
        (rival.label, rival.kind, rival.times_us[result.shape]) for rival in rivals if result.shape in rival.times_us
    ]
    others += [(name, "baseline", time) for name, time in sorted(result.baselines_us.items(), key=lambda item: item[1])]
    if result.pacer_us is not None:
        others.append(("pacer", "pacer", result.pacer_us))
    floors = {"memory floor": least.memory_us, "plain copy": result.copy_us}
    for name, time in {**floors, "arithmetic floor": least.arithmetic_us}.items():
        if time is not None:
            others.append((name, "floor", time))
    own = (result.low_us or middle, middle, result.high_us or middle)
    longest = max([own[2], *(time for _, _, time in others)])
    bars = [bar("this kernel", "own", time_us(middle, provenance), own, longest)]
    bars += [
        bar(label, kind, time_us(time, "measured" if kind == "floor" else provenance), (time, time, time), longest)
        for label, kind, time in others
    ]
    distance = middle / least.floor_us if least.floor_us and middle else None
    return ShapeTimes(
        shape=result.shape,
        bars=tuple(bars),
        pairs=result.pairs,
        floors=least,
        distance=distance,
        share=None if distance is None else 1 / distance,
        over_copy=middle / result.copy_us if result.copy_us and middle else None,
        limit=_limit(least.bound, distance),
    )


def _limit(bound: Bound | None, distance: float | None) -> str:
    if bound is None or distance is None:
        return "the required bytes and operations are unknown"
    name, rest = LIMITS[bound]
    return name if distance <= NEAR_FLOOR else f"more than {name}: {rest}"


@dataclass(frozen=True)
class EvaluatedVariant:
    """Results of a variant on one device.

    Attributes:
        device: Name of the device.
        provenance: Source of the times: measured, predicted or recorded.
        relative_to: Baseline of the speedup.
        report: The report that counts; None before there is one.
        others: The other reports from this device, oldest first.
        speedup: Speedup over the baseline; None if unknown.
        times: Times per shape.
        cell: Cell of the variant; None if an axis has no value.
        holder: Elite of that cell; None if the cell is empty.
        provisional: True if the variant holds the cell provisionally.
        card: Card whose figures the floors assume.
        roofline: All shapes under that card's roofs; None if bytes or operations are unknown.
    """

    device: str
    provenance: str
    relative_to: str
    report: Report | None
    others: tuple[Report, ...]
    speedup: Ratio | None
    times: tuple[ShapeTimes, ...]
    cell: int | None
    holder: EliteRecord | None
    card: str
    roofline: Roofline | None = None
    provisional: bool = False


async def load_results(
    store: Store, search: SearchRecord, reports: Sequence[Report], stored: BundleRecord | None
) -> tuple[EvaluatedVariant, ...]:
    """Load the results of a variant on each device of its search.

    Args:
        store: The archive.
        search: Search of the candidate.
        reports: All reports on the variant, oldest first.
        stored: Bundle of the variant; None if it did not compile.
    """
    operator = Operator.model_validate_json((await store.operators.get(search.operator)).document)
    return tuple([await _judged(store, search, device, reports, stored, operator) for device in search.devices])


async def _judged(
    store: Store,
    search: SearchRecord,
    device: str,
    reports: Sequence[Report],
    stored: BundleRecord | None,
    operator: Operator,
) -> EvaluatedVariant:
    """Load the results of a variant on a device, beside the kernels that it is compared with."""
    here = [report for report in reports if report.device.name == device]
    report = next(iter(latest_reports(here)), None)
    measures = Device.parse(device).measures
    cell = Grid(search.axes).index(coordinates(stored.readings[first_benchmark(search)])) if stored else None
    holder = await _holder(store, search, device, cell)
    waiting = None if cell is None else await store.provisional.get(search.id, device, search.axes_version, cell)
    seed_us = {} if measures else await ReferenceSeed(store).baseline_us(search, device)
    rivals = [BaselineTimes("seed kernel", "baseline", seed_us)] if seed_us else []
    if holder and report and holder.candidate != report.candidate:
        rivals.insert(0, BaselineTimes("cell's holder", "incumbent", await _times_of(store, search, holder.job)))
    said = provenance(device)
    judged = EvaluatedVariant(
        device=device,
        provenance=said,
        relative_to=relative_to(device, search),
        report=report,
        others=tuple(each for each in here if each is not report),
        speedup=None,
        times=(),
        cell=cell,
        holder=holder,
        card=shown_figures(Device.parse(device).target, report.card if report else None).card,
        provisional=waiting is not None and stored is not None and waiting.bundle == stored.identity,
    )
    if report is None:
        return judged
    weights = benchmark_weights(search)
    todo = _works(search, stored, operator) if stored else {}
    target = shown_figures(report.device.target, report.card)
    timed = [(each.shape, todo.get(each.shape, ShapeWork()), each.mid_us or 0.0) for each in report.shapes]
    return replace(
        judged,
        speedup=gain(report, seed_us, weights) or over_pacer(report, weights),
        times=compare(report, todo, rivals, said),
        roofline=roofline(timed, target),
    )


async def _holder(store: Store, search: SearchRecord, device: str, cell: int | None) -> EliteRecord | None:
    if cell is None:
        return None
    try:
        return await store.elites.get(search.id, device, search.axes_version, cell)
    except RecordNotFound:
        return None


async def _times_of(store: Store, search: SearchRecord, job: str) -> dict[str, float]:
    documents = await store.views.documents([job])
    return times_us(completed(Report.model_validate_json(documents[job]), search)) if job in documents else {}


def _works(search: SearchRecord, stored: BundleRecord, operator: Operator) -> dict[str, ShapeWork]:
    """Compute the work that any kernel has to do, by shape."""
    keys = [",".join(f"{name}={size}" for name, size in sorted(shape["dims"].items())) for shape in search.shapes]
    todo = works(search.shapes, search.graphs, [item.dtype for item in operator.inputs])
    return {
        key: replace(work, required_bytes=readings.get("bytes_required"))
        for key, work, readings in zip(keys, todo, stored.readings, strict=False)
    }
