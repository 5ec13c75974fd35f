"""Reports in the archive: conversion, reading back, and reuse for cases with an equal bundle."""

from collections.abc import Iterable

from archive.records import NewReport, SearchRecord
from archive.store import Store
from service.evaluation.jobs import FINAL, EvaluationCase
from service.evaluation.speedups import completed
from workers.protocol import Outcome, Report, Trust, describe_compiler


async def reports_on(store: Store, candidate: str, search: SearchRecord | None = None) -> list[Report]:
    """Return all reports on a candidate, oldest first, except its finalist examinations.

    Args:
        store: The archive.
        candidate: Id of the candidate.
        search: Its search, to add the baselines to reports that came before them; None for the reports as they came.
    """
    reports = (Report.model_validate_json(document) for document in await store.reports.of_candidate(candidate))
    found = [report for report in reports if report.kind != FINAL]
    return found if search is None else [completed(report, search) for report in found]


def is_unverified(report: Report) -> bool:
    """Return True if a report has trust C or D: its worker is untrusted or could not guarantee more."""
    return report.trust in (Trust.C, Trust.D)


def is_about_source(report: Report) -> bool:
    """Return True if a report concerns only the source: an equal bundle may come from an interpretable source."""
    return report.outcome is Outcome.NOT_INTERPRETABLE


def addressed(report: Report, case: EvaluationCase, purpose: str | None) -> Report:
    """Copy a report to a case with an equal bundle. A copy for another job counts no device time.

    Args:
        report: Report on the equal bundle.
        case: The case that gets it.
        purpose: Value that `incumbent_of` will return for it.
    """
    return report.model_copy(
        update={
            "job": case.job(purpose),
            "search": case.search.id,
            "candidate": case.candidate.id,
            "variant": case.variant,
            "stages_s": report.stages_s if report.job == case.job(purpose) else {},
        }
    )


def latest_reports(reports: Iterable[Report]) -> list[Report]:
    """Return the latest report for each variant and device, ignoring later ones with `worker_lost`.

    A finalist's examination is left out: it says nothing about speed, and a failed finalist holds no cell.

    Args:
        reports: Reports on one candidate, oldest first.
    """
    latest: dict[tuple[int, str], Report] = {}
    for report in reports:
        case = (report.variant, report.device.name)
        if report.kind != FINAL and (case not in latest or report.outcome is not Outcome.WORKER_LOST):
            latest[case] = report
    return list(latest.values())


def record(case: EvaluationCase, report: Report) -> NewReport:
    """Convert a report to the archive's record."""
    return NewReport(
        job=report.job,
        search=case.search.id,
        candidate=case.candidate.id,
        variant=report.variant,
        bundle=report.bundle,
        operator=case.operator.digest,
        device=report.device.name,
        kind=report.kind,
        protocol_version=report.protocol_version,
        compiler=describe_compiler(report.versions),
        outcome=report.outcome.value,
        reason=report.reason,
        provenance=report.provenance.value,
        document=report.model_dump_json(),
    )


def device_ms(report: Report) -> int:
    """Return a report's time on its device, milliseconds."""
    return round(1000 * sum(report.stages_s.values()))
