"""Documents of REST, built from the archive's records. The models themselves are in `kernelreef.models`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from archive import records
from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from kernelreef import models
from service.evaluation.figure_labels import outdated, provenance, relative_to
from service.evaluation.floors import HALVES, floors, works
from service.evaluation.jobs import target_of
from workers.protocol import Bundle, MutationReport, Operator, Readings, Shape, ShapeRole, TraceReport
from workers.protocol.words import describe_plan
from workers.targets import shown_figures

UNPREDICTED = "too large to be sampled, or the worker does not predict"
"""Reason for a missing prediction if the worker gives none."""


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
    same = {name: getattr(search, name) for name in models.Search.model_fields if hasattr(search, name)}
    return models.Search(
        **same
        | {
            "operator": search.operator_name,
            "operator_digest": search.operator,
            "axes": tuple(axis.descriptor for axis in search.axes),
            "evaluated": result.evaluated if result else None,
            "best": result.best if result else None,
        }
    )


def provisional_of(holder: records.ProvisionalRecord, grid: Grid) -> models.ProvisionalHolder:
    """Build a provisional holder with its place in the grid."""
    return models.ProvisionalHolder(**_holder(holder, grid))


def elite_of(
    search: records.SearchRecord,
    elite: records.EliteRecord,
    grid: Grid,
    finalist: models.FinalistResult | None = None,
) -> models.Elite:
    """Build an elite of a search with its place in the grid."""
    return models.Elite(
        **_holder(elite, grid),
        revision=elite.revision,
        protocol_version=elite.protocol_version,
        outdated=outdated(elite.protocol_version),
        compiler=elite.compiler,
        admitted=search.admitted,
        finalist=finalist,
    )


def _holder(holder: records.EliteRecord | records.ProvisionalRecord, grid: Grid) -> dict[str, Any]:
    """Build the fields that every holder of a cell has."""
    names = ("device", "cell", "candidate", "variant", "bundle", "job", "emitter", "objective", "placed_at")
    return {
        **{name: getattr(holder, name) for name in names},
        "bins": tuple(grid.bins(holder.cell)),
        "coordinates": {name: models.Coordinate.model_validate(place) for name, place in holder.coordinates.items()},
        "speedup": models.Speedup(low=holder.low, mid=holder.mid, high=holder.high),
    }


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
        elites=tuple(elite_of(search, elite, grid) for elite in elites),
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


def source_check_of(report: TraceReport, search: records.SearchRecord) -> models.SourceCheck:
    """Build the result of a quick check for a search from a worker's report."""
    variants = []
    for traced in report.variants:
        described = () if traced.bundle is None else tuple(_described(traced.bundle, traced.readings))
        variants.append(
            models.Variant(
                index=traced.index,
                configuration=dict(traced.bundle.configuration) if traced.bundle else {},
                bundle=None,
                outcome=traced.outcome.value,
                reason=traced.reason,
                line=traced.line,
                plans=described,
            )
        )
    return models.SourceCheck(
        outcome=report.outcome.value,
        reason=report.reason,
        line=report.line,
        variants=tuple(variants),
        predicted=tuple(_predicted(report, search)),
        stages_s=report.stages_s,
    )


def _predicted(report: TraceReport, search: records.SearchRecord) -> Iterator[models.PredictedTime]:
    """Yield the predicted time and the floors of each variant at each benchmark shape."""
    target = shown_figures(target_of(search), None)
    todo = {
        Shape.model_validate(shape).key: work
        for shape, work in zip(search.shapes, works(search.shapes, search.graphs, HALVES), strict=True)
    }
    for variant in report.variants:
        plans = () if variant.bundle is None else variant.bundle.plans
        for plan, read in zip(plans, variant.readings, strict=False):
            key = plan.shape.key
            if plan.shape.role is not ShapeRole.BENCHMARK or key not in todo:
                continue
            least = floors(replace(todo[key], required_bytes=read.bytes_required), target)
            time_us = variant.predicted_us.get(key)
            yield models.PredictedTime(
                variant=variant.index,
                shape=key,
                predicted_us=time_us,
                reason=variant.unpredicted or ("" if time_us else UNPREDICTED),
                memory_floor_us=least.memory_us,
                arithmetic_floor_us=least.arithmetic_us,
            )


def _described(bundle: Bundle, readings: Sequence[Readings]) -> Iterator[models.PlanDescription]:
    for plan, read in zip(bundle.plans, readings, strict=True):
        words = tuple(describe_plan(plan, bundle.kernels))
        yield models.PlanDescription(shape=plan.shape.key, words=words, readings=read.model_dump(mode="json"))


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
