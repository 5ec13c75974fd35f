"""What REST answers with: the archive's records as documents. Times are UTC ISO 8601."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, JsonValue
from pydantic_core import CoreSchema

from archive import records
from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from service.api.examples import EXAMPLES
from service.evaluation.figure_labels import FinalistResult, Provenance, outdated, provenance, relative_to
from service.generation.screening_report import ScreeningReport
from workers.protocol import Bundle, MutationReport, Operator
from workers.protocol.words import describe_plan


class Resource(BaseModel):
    """Something that REST shows; never changes once read."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema, with an example where `examples` has one."""
        schema = handler(core)
        if cls.__name__ in EXAMPLES:
            handler.resolve_ref_schema(schema)["examples"] = [EXAMPLES[cls.__name__]]
        return schema


class Axis(Resource):
    """One axis of a grid: the descriptor in words, its borders, and a label for each bin."""

    descriptor: str
    unit: str
    meaning: str
    bins: int
    edges: tuple[float, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, axis: records.AxisRecord) -> Self:
        """An axis as its descriptor explains it."""
        known = DESCRIPTORS[axis.descriptor]
        return cls(
            descriptor=axis.descriptor,
            unit=known.unit,
            meaning=known.meaning,
            bins=axis.bins,
            edges=known.edges,
            labels=known.labels,
        )


class Search(Resource):
    """One search. `operator` is the operator's name, `operator_digest` the exact one that was submitted."""

    id: str
    operator: str
    operator_digest: str
    devices: tuple[str, ...]
    emitters: tuple[str, ...]
    axes: tuple[str, ...]
    axes_version: int
    budget: int
    seed: int
    priority: int
    shapes: tuple[Mapping[str, JsonValue], ...]
    llm: Mapping[str, JsonValue] | None = None
    stop: Mapping[str, JsonValue] | None = None
    choosing: Mapping[str, JsonValue] | None = None
    state: records.SearchState
    reason: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, search: records.SearchRecord) -> Self:
        """A search without its reference graphs, which no client needs."""
        return cls(
            id=search.id,
            operator=search.operator_name,
            operator_digest=search.operator,
            devices=search.devices,
            emitters=search.emitters,
            axes=tuple(axis.descriptor for axis in search.axes),
            axes_version=search.axes_version,
            budget=search.budget,
            seed=search.seed,
            priority=search.priority,
            shapes=search.shapes,
            llm=search.llm,
            stop=search.stop,
            choosing=search.choosing,
            state=search.state,
            reason=search.reason,
            created_at=search.created_at,
            updated_at=search.updated_at,
        )


class Speedup(Resource):
    """Baseline time over candidate time, with its bounds."""

    low: float
    mid: float
    high: float


class Coordinate(Resource):
    """Where a kernel lies on one axis."""

    value: float
    bin: int


class Elite(Resource):
    """The holder of a cell. `objective` is what the archive compares; `revision` counts the cell's promotions.

    `job` is that of the report which its speedup rests on. `finalist` is what examining it at the search's end came to,
    None before that; only `…/elites` tells it. `protocol_version` is the report's, None where the archive lacks it; the
    elite is `outdated` if the service judges by another one, whose checks it was not held against.
    """

    device: str
    cell: int
    bins: tuple[int, ...]
    coordinates: Mapping[str, Coordinate]
    candidate: str
    variant: int
    bundle: str
    job: str
    emitter: str
    objective: float
    speedup: Speedup
    revision: int
    placed_at: datetime
    protocol_version: int | None = None
    outdated: bool = False
    finalist: FinalistResult | None = None

    @classmethod
    def of(cls, elite: records.EliteRecord, grid: Grid, finalist: FinalistResult | None = None) -> Self:
        """An elite with its place in the grid."""
        return cls(
            device=elite.device,
            cell=elite.cell,
            bins=tuple(grid.bins(elite.cell)),
            coordinates={name: Coordinate.model_validate(place) for name, place in elite.coordinates.items()},
            candidate=elite.candidate,
            variant=elite.variant,
            bundle=elite.bundle,
            job=elite.job,
            emitter=elite.emitter,
            objective=elite.objective,
            speedup=Speedup(low=elite.low, mid=elite.mid, high=elite.high),
            revision=elite.revision,
            placed_at=elite.placed_at,
            protocol_version=elite.protocol_version,
            outdated=outdated(elite.protocol_version),
            finalist=finalist,
        )


class Archive(Resource):
    """A search's map on one device: the axes, and every cell that is held. Cells not listed are empty.

    `relative_to` says what speedups are relative to; `provenance` whether they were measured.
    """

    search: str
    device: str
    provenance: Provenance
    relative_to: str
    axes_version: int
    axes: tuple[Axis, ...]
    cells: int
    elites: tuple[Elite, ...]

    @classmethod
    def of(cls, search: records.SearchRecord, device: str, elites: Sequence[records.EliteRecord]) -> Self:
        """The map of a search on one of its devices."""
        grid = Grid(search.axes)
        return cls(
            search=search.id,
            device=device,
            provenance=provenance(device),
            relative_to=relative_to(device),
            axes_version=search.axes_version,
            axes=tuple(Axis.of(axis) for axis in search.axes),
            cells=grid.cells,
            elites=tuple(Elite.of(elite, grid) for elite in elites),
        )


class DeviceProgress(Resource):
    """Where a search stands on one device, with statistics as pyribs defines them."""

    device: str
    provenance: Provenance
    relative_to: str
    evaluations: int
    correct: int
    elites: int
    cells: int
    coverage: float
    qd_score: float
    norm_qd_score: float
    best: float | None
    outcomes: Mapping[str, int]
    emitters: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, device: str, progress: records.ProgressRecord) -> Self:
        """The archive's figures under the device they belong to."""
        return cls(device=device, provenance=provenance(device), relative_to=relative_to(device), **vars(progress))


class EmitterStatus(Resource):
    """What an emitter gets of the turns from now on (`share`, 0 to 1), and why.

    `tries`, `promotions` and `gain` are those of its recent proposals, `cost` is in evaluations. `resting` says what it
    does not try at present, each with the reason.
    """

    emitter: str
    share: float
    tries: int
    promotions: int
    gain: float
    cost: float
    resting: Mapping[str, str]


class Progress(Resource):
    """Where a search stands. `proposals` counts duplicates too, `candidates` does not.

    `unserved` are devices that no worker judges on at the moment. `waits_for` says whom the search waits for where
    nobody is there to do its jobs, such as `a trusted worker that traces for sm_90`; it is empty while all goes on.
    `screening` is None where nothing is screened.
    """

    search: str
    state: records.SearchState
    reason: str
    budget: int
    proposals: int
    candidates: int
    in_flight: int
    judged: int
    unserved: tuple[str, ...]
    waits_for: tuple[str, ...]
    devices: tuple[DeviceProgress, ...]
    turns: tuple[EmitterStatus, ...]
    screening: ScreeningReport | None = None


class CandidateSummary(Resource):
    """A candidate in a list, without its source.

    `objectives` are those of its best variant on each device where one is correct; `objective` is the one on the
    search's first device.
    """

    id: str
    search: str
    ordinal: int
    emitter: str
    parents: tuple[str, ...]
    note: str
    state: records.CandidateState
    outcome: str | None
    reason: str
    line: int | None
    objective: float | None
    objectives: Mapping[str, float]
    created_at: datetime


class PlanDescription(Resource):
    """One plan of a variant: what it does in words, one line a step, and what was read from its machine code."""

    shape: str
    words: tuple[str, ...]
    readings: Mapping[str, JsonValue]


class Variant(Resource):
    """One autotune configuration of a candidate. Without a bundle it has no plans."""

    index: int
    configuration: Mapping[str, JsonValue]
    bundle: str | None
    outcome: str | None
    reason: str
    line: int | None
    plans: tuple[PlanDescription, ...]

    @classmethod
    def of(cls, variant: records.VariantRecord, stored: records.BundleRecord | None) -> Self:
        """A variant with its plans, if it has a bundle."""
        return cls(**vars(variant), plans=tuple(_plans(stored)) if stored else ())


def _plans(stored: records.BundleRecord) -> Iterator[PlanDescription]:
    bundle = Bundle.model_validate_json(stored.document)
    for plan, readings in zip(bundle.plans, stored.readings, strict=True):
        yield PlanDescription(shape=plan.shape.key, words=tuple(describe_plan(plan, bundle.kernels)), readings=readings)


class Candidate(CandidateSummary):
    """A candidate with all that is known of it. `reports` are as the workers sent them, oldest first."""

    source: str
    stages_s: Mapping[str, float]
    variants: tuple[Variant, ...]
    reports: tuple[Mapping[str, JsonValue], ...]

    @classmethod
    def of(cls, candidate: records.CandidateRecord, variants: Sequence[Variant], reports: Sequence[str]) -> Self:
        """A candidate with its variants and the JSON text of its reports."""
        summary = CandidateSummary.model_validate(candidate)
        return cls(
            **summary.model_dump(),
            source=candidate.source,
            stages_s=candidate.stages_s,
            variants=tuple(variants),
            reports=tuple(json.loads(report) for report in reports),
        )


class OperatorSummary(Resource):
    """An operator in a list. `catalogue` says whether it comes with Kernelreef or was submitted."""

    name: str
    digest: str
    entry: str
    catalogue: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dimensions: tuple[str, ...]
    shapes: int

    @classmethod
    def of(cls, operator: Operator, *, catalogue: bool) -> Self:
        """An operator in the few words that tell it from another."""
        return cls(
            name=operator.name,
            digest=operator.digest,
            entry=operator.entry,
            catalogue=catalogue,
            inputs=tuple(item.name for item in operator.inputs),
            outputs=tuple(item.name for item in operator.outputs),
            dimensions=operator.dimensions,
            shapes=len(operator.shapes),
        )


class MutationResult(Resource):
    """What the gate said last of an operator: whether its checks tell right from wrong, and what was tried."""

    operator: str
    digest: str
    gate: MutationReport
    tried_at: datetime

    @classmethod
    def of(cls, operator: Operator, record: records.MutationReportRecord) -> Self:
        """A stored gate with the name of its operator."""
        gate = MutationReport.model_validate_json(record.document)
        return cls(operator=operator.name, digest=operator.digest, gate=gate, tried_at=record.created_at)


class Pin(Resource):
    """A cell whose holder is preferred as a parent, or a candidate that is while it holds a cell."""

    id: str
    search: str
    device: str
    cell: int | None
    candidate: str | None
    author: str
    created_at: datetime


class Hint(Resource):
    """What a person told the models that write a search's candidates."""

    id: str
    search: str
    text: str
    author: str
    created_at: datetime
