"""Documents of REST, built from the archive's records. The models themselves are in `kernelreef.models`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from archive import records
from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from kernelreef import models
from service.evaluation.figure_labels import outdated, provenance, relative_to
from workers.protocol import Bundle, MutationReport, Operator
from workers.protocol.words import describe_plan


class MutationResult(models.Resource):
    """Result of an operator's latest mutation testing: whether its checks tell right from wrong, and what was tried."""

    former: ClassVar[Mapping[str, str]] = {"mutation_report": "gate"}

    operator: str
    digest: str
    mutation_report: MutationReport
    tried_at: datetime


def axis_of(axis: records.AxisRecord) -> models.Axis:
    """Build an axis as its descriptor explains it."""
    known = DESCRIPTORS[axis.descriptor]
    return models.Axis(
        descriptor=axis.descriptor,
        unit=known.unit,
        meaning=known.meaning,
        bins=axis.bins,
        edges=known.edges,
        labels=known.labels,
    )


def search_of(search: records.SearchRecord, result: records.SearchResult | None = None) -> models.Search:
    """Build a search without its reference graphs, which no client needs; in a list with its result so far."""
    return models.Search(
        id=search.id,
        operator=search.operator_name,
        operator_digest=search.operator,
        devices=search.devices,
        emitters=search.emitters,
        axes=tuple(axis.descriptor for axis in search.axes),
        axes_version=search.axes_version,
        evaluations=search.evaluations,
        seed=search.seed,
        priority=search.priority,
        shapes=search.shapes,
        llm=search.llm,
        stop=search.stop,
        selection=search.selection,
        state=search.state,
        reason=search.reason,
        created_at=search.created_at,
        updated_at=search.updated_at,
        name=search.name,
        tags=search.tags,
        notes=search.notes,
        owner=search.owner,
        evaluated=result.evaluated if result else None,
        best=result.best if result else None,
    )


def provisional_of(holder: records.ProvisionalRecord, grid: Grid) -> models.ProvisionalHolder:
    """Build a provisional holder with its place in the grid."""
    return models.ProvisionalHolder(
        device=holder.device,
        cell=holder.cell,
        bins=tuple(grid.bins(holder.cell)),
        coordinates={name: models.Coordinate.model_validate(place) for name, place in holder.coordinates.items()},
        candidate=holder.candidate,
        variant=holder.variant,
        bundle=holder.bundle,
        job=holder.job,
        emitter=holder.emitter,
        objective=holder.objective,
        speedup=models.Speedup(low=holder.low, mid=holder.mid, high=holder.high),
        placed_at=holder.placed_at,
    )


def elite_of(elite: records.EliteRecord, grid: Grid, finalist: models.FinalistResult | None = None) -> models.Elite:
    """Build an elite with its place in the grid."""
    return models.Elite(
        device=elite.device,
        cell=elite.cell,
        bins=tuple(grid.bins(elite.cell)),
        coordinates={name: models.Coordinate.model_validate(place) for name, place in elite.coordinates.items()},
        candidate=elite.candidate,
        variant=elite.variant,
        bundle=elite.bundle,
        job=elite.job,
        emitter=elite.emitter,
        objective=elite.objective,
        speedup=models.Speedup(low=elite.low, mid=elite.mid, high=elite.high),
        revision=elite.revision,
        placed_at=elite.placed_at,
        protocol_version=elite.protocol_version,
        outdated=outdated(elite.protocol_version),
        finalist=finalist,
    )


def archive_of(
    search: records.SearchRecord,
    device: str,
    elites: Sequence[records.EliteRecord],
    provisional: Sequence[records.ProvisionalRecord],
) -> models.Archive:
    """Build the map of a search on one of its devices."""
    grid = Grid(search.axes)
    return models.Archive(
        search=search.id,
        device=device,
        provenance=provenance(device),
        relative_to=relative_to(device, search),
        axes_version=search.axes_version,
        axes=tuple(axis_of(axis) for axis in search.axes),
        cells=grid.cells,
        elites=tuple(elite_of(elite, grid) for elite in elites),
        provisional=tuple(provisional_of(holder, grid) for holder in provisional),
    )


def device_progress_of(
    search: records.SearchRecord, device: str, progress: records.ProgressRecord
) -> models.DeviceProgress:
    """Build the archive's figures under the device they belong to."""
    base = relative_to(device, search)
    return models.DeviceProgress(device=device, provenance=provenance(device), relative_to=base, **vars(progress))


def variant_of(variant: records.VariantRecord, stored: records.BundleRecord | None) -> models.Variant:
    """Build a variant with its plans, if it has a bundle."""
    return models.Variant(**vars(variant), plans=tuple(_plans(stored)) if stored else ())


def _plans(stored: records.BundleRecord) -> Iterator[models.PlanDescription]:
    bundle = Bundle.model_validate_json(stored.document)
    for plan, readings in zip(bundle.plans, stored.readings, strict=True):
        yield models.PlanDescription(
            shape=plan.shape.key, words=tuple(describe_plan(plan, bundle.kernels)), readings=readings
        )


def candidate_of(
    candidate: records.CandidateRecord, variants: Sequence[models.Variant], reports: Sequence[str]
) -> models.Candidate:
    """Build a candidate with its variants and the JSON text of its reports."""
    summary = models.CandidateSummary.model_validate(candidate)
    return models.Candidate(
        **summary.model_dump(),
        source=candidate.source,
        stages_s=candidate.stages_s,
        variants=tuple(variants),
        reports=tuple(json.loads(report) for report in reports),
    )


def operator_summary_of(operator: Operator, *, catalogue: bool) -> models.OperatorSummary:
    """Build a summary of an operator."""
    return models.OperatorSummary(
        name=operator.name,
        digest=operator.digest,
        entry=operator.entry,
        catalogue=catalogue,
        inputs=tuple(item.name for item in operator.inputs),
        outputs=tuple(item.name for item in operator.outputs),
        dimensions=operator.dimensions,
        shapes=len(operator.shapes),
    )


def mutation_result_of(operator: Operator, record: records.MutationReportRecord) -> MutationResult:
    """Build a stored result of mutation testing with the name of its operator."""
    report = MutationReport.model_validate_json(record.document)
    return MutationResult(
        operator=operator.name, digest=operator.digest, mutation_report=report, tried_at=record.created_at
    )
