"""The page of a candidate: source, lineage, launch plans, and the evidence for its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from archive.descriptors import DESCRIPTORS, coordinates
from archive.errors import RecordNotFound
from archive.records import BundleRecord, CandidateRecord, SearchRecord, VariantRecord
from archive.store import Store
from kernelreef.short_ids import brief
from kernelreef.states import ENDED
from service.analysis.kernels import read_kernel
from service.dashboard import formatting
from service.dashboard.evaluated import EvaluatedVariant, load_results
from service.dashboard.lineages import CHILDREN, GENERATIONS, LineageDrawing, lay_out
from service.dashboard.rendering import Fragment, HtmlPage
from service.dashboard.sources import DiffLine, difference, highlighted
from service.evaluation.promotion import first_benchmark
from service.evaluation.reports import latest_reports, reports_on
from workers.protocol import Bundle, Operator, Outcome, Report, ShapeRole
from workers.protocol.words import describe_plan

READING_NAMES = {"turn_bytes": "bytes per loop iteration"}
"""Names of readings for people, where our own say too little."""


@dataclass(frozen=True)
class AxisValue:
    """Position of a variant on one axis; `bin` is its label, and `value` is None if the label says everything."""

    axis: str
    value: float | None
    bin: str
    spans: bool


@dataclass(frozen=True)
class PlanText:
    """A launch plan in words, with the readings of its machine code.

    `by_launch` are readings per launch: the name of each, and its value for every launch in order. It is empty for a
    single launch, whose readings are the plan's.
    """

    shape: str
    role: str
    lines: tuple[str, ...]
    readings: tuple[tuple[str, str], ...]
    by_launch: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class CandidatePage(HtmlPage):
    """A candidate with one of its variants in full."""

    template = "candidate.html"
    section = "/"

    candidate: CandidateRecord
    search: SearchRecord
    lines: tuple[Markup, ...]
    variants: tuple[VariantRecord, ...]
    chosen: VariantRecord | None
    places: tuple[AxisValue, ...]
    plans: tuple[PlanText, ...]
    judged: tuple[EvaluatedVariant, ...]
    lineage: LineageDrawing
    against: CandidateRecord | None
    changes: tuple[DiffLine, ...] | None

    @property
    def title(self) -> str:
        """Short name of the candidate."""
        return f"{self.search.operator_name} candidate {brief(self.candidate.id)}"

    @property
    def device(self) -> str:
        """Device of the figures in the lineage drawing: the first on which the candidate has any."""
        return next((name for name in self.search.devices if name in self.candidate.objectives), self.search.devices[0])

    @property
    def steerable(self) -> bool:
        """True if the search can still be changed."""
        return self.search.state not in ENDED

    @property
    def holds(self) -> tuple[EvaluatedVariant, ...]:
        """Results of the chosen variant on the devices where it holds its cell."""
        return tuple(each for each in self.judged if each.holder and each.holder.candidate == self.candidate.id)


@dataclass(frozen=True)
class CompiledKernels(Fragment):
    """The compiled kernels of a variant."""

    template = "parts/assembly.html"
    name = "assembly"

    kernels: tuple[tuple[str, str, str], ...]


async def load_candidate(store: Store, id: str, variant: int | None, against: str | None) -> CandidatePage:
    """Read everything about a candidate.

    Args:
        store: The archive.
        id: Id of the candidate.
        variant: Index of the variant to show; None for the first correct one.
        against: Id of the candidate to compare the source with; None for the first parent.

    Raises:
        RecordNotFound: If a candidate or the variant does not exist.
    """
    candidate = await store.candidates.get(id)
    search = await store.searches.get(candidate.search)
    variants = await store.candidates.variants(id)
    reports = await reports_on(store, id, search)
    chosen = _choose(variants, reports, variant)
    stored = await store.bundles.get(chosen.bundle) if chosen and chosen.bundle else None
    kin = await store.views.lineage((id,), GENERATIONS)
    children = await store.views.children(id, CHILDREN)
    against = against or next(iter(candidate.parents), None)
    other = await store.candidates.get(against) if against else None
    mine = [report for report in reports if chosen and report.variant == chosen.index]
    return CandidatePage(
        candidate=candidate,
        search=search,
        lines=highlighted(candidate.source),
        variants=tuple(variants),
        chosen=chosen,
        places=_places(search, stored) if stored else (),
        plans=_plans(stored) if stored else (),
        judged=await load_results(store, search, mine, stored) if mine else (),
        lineage=lay_out([*kin, *children]),
        against=other,
        changes=difference(other.source, candidate.source) if other else None,
    )


async def load_assembly(store: Store, id: str, variant: int) -> CompiledKernels:
    """Read the compiled kernels of a variant.

    Raises:
        RecordNotFound: If there is no such variant, or it was never compiled.
    """
    found = next((each for each in await store.candidates.variants(id) if each.index == variant), None)
    if found is None or found.bundle is None:
        raise RecordNotFound(f"candidate {id} has no compiled variant {variant}")
    bundle = Bundle.model_validate_json((await store.bundles.get(found.bundle)).document)
    kernels = [(digest, kernel.language, kernel.assembly) for digest, kernel in bundle.kernels.items()]
    return CompiledKernels(tuple(kernels))


async def load_kernel(store: Store, id: str, device: str, variant: int) -> str:
    """Build a runnable file for a variant that holds its cell.

    Raises:
        RecordNotFound: If it holds no cell on that device.
    """
    page = await load_candidate(store, id, variant, None)
    judged = next((each for each in page.holds if each.device == device), None)
    if judged is None or judged.holder is None:
        raise RecordNotFound(f"variant {variant} of candidate {id} holds no cell on {device}")
    operator = Operator.model_validate_json((await store.operators.get(page.search.operator)).document)
    return (await read_kernel(store, page.search, operator, judged.holder)).text


def _choose(variants: Sequence[VariantRecord], reports: Sequence[Report], wanted: int | None) -> VariantRecord | None:
    """Choose the variant to show: the wanted one, else the first correct one, else the first."""
    if wanted is not None:
        chosen = next((variant for variant in variants if variant.index == wanted), None)
        if chosen is None:
            raise RecordNotFound(f"there is no variant {wanted}")
        return chosen
    correct = {report.variant for report in latest_reports(reports) if report.outcome is Outcome.CORRECT}
    return next((variant for variant in variants if variant.index in correct), variants[0] if variants else None)


def _places(search: SearchRecord, stored: BundleRecord) -> tuple[AxisValue, ...]:
    """Locate a variant on every descriptor; the axes of the search's grid come first."""
    spanning = [axis.descriptor for axis in search.axes]
    found = coordinates(stored.readings[first_benchmark(search)])
    places = [
        AxisValue(name, where["value"] if any(map(str.isdigit, label)) else None, label, name in spanning)
        for name, where in found.items()
        for label in (DESCRIPTORS[name].labels[where["bin"]],)
    ]
    return tuple(sorted(places, key=lambda place: (not place.spans, place.axis)))


def _plans(stored: BundleRecord) -> tuple[PlanText, ...]:
    bundle = Bundle.model_validate_json(stored.document)
    plans = []
    for plan, readings in zip(bundle.plans, stored.readings, strict=True):
        launches: Sequence[Mapping[str, Any]] = readings.get("by_launch") or ()
        whole = {name: value for name, value in readings.items() if name != "by_launch"}
        # The facts of a single launch are the plan's.
        facts = {**launches[0], **whole} if len(launches) == 1 else whole
        plans.append(
            PlanText(
                shape=plan.shape.key,
                role=plan.shape.role.value,
                lines=tuple(describe_plan(plan, bundle.kernels)[1:]),
                readings=known_facts(facts),
                by_launch=facts_by_launch(launches) if len(launches) > 1 else (),
            )
        )
    return tuple(sorted(plans, key=lambda plan: plan.role != ShapeRole.BENCHMARK))


def known_facts(readings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Format the known readings of a plan or a launch."""
    return tuple(
        (READING_NAMES.get(name) or name.removesuffix("_bytes").replace("_", " "), _fact(name, value))
        for name, value in readings.items()
        if value is not None and value != {}
    )


def facts_by_launch(launches: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Format the readings of launches as a table: one row per reading that is known for some launch."""
    columns = [dict(known_facts(readings)) for readings in launches]
    names = dict.fromkeys(name for column in columns for name in column)
    return tuple((name, tuple(column.get(name, formatting.UNKNOWN) for column in columns)) for name in names)


def _fact(name: str, value: object) -> str:
    if isinstance(value, dict):
        counted = sorted(value.items(), key=lambda item: -item[1])
        return ", ".join(f"{key.replace('_', ' ')} {count}" for key, count in counted if count) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if "bytes" in name:
            return formatting.size_bytes(value)
        if name == "occupancy":
            return formatting.share(value)
        return formatting.decimal(value)
    return str(value)
