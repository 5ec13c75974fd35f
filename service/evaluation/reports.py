"""Reports and the archive: written down, read back, given to whoever waits for an equal bundle."""

from collections.abc import Iterable

from archive.records import NewReport
from archive.store import Store
from service.evaluation.jobs import FINAL, EvaluationCase
from workers.protocol import Outcome, Report, Trust


async def reports_on(store: Store, candidate: str) -> list[Report]:
    """What a candidate is judged by, oldest first: all reports on it, but for those that examine it as a finalist."""
    reports = (Report.model_validate_json(document) for document in await store.reports.of_candidate(candidate))
    return [report for report in reports if report.kind != FINAL]


def is_unverified(report: Report) -> bool:
    """Whether a report is the word of an untrusted host, or of one that could guarantee as little."""
    return report.trust in (Trust.C, Trust.D)


def is_about_source(report: Report) -> bool:
    """Whether a report says nothing about its bundle: an equal one may come from a source that can be interpreted."""
    return report.outcome is Outcome.NOT_INTERPRETABLE


def addressed(report: Report, case: EvaluationCase, errand: str | None) -> Report:
    """The same verdict, for a case with an equal bundle, as the answer to what is asked about that.

    Whoever did not ask for it first took no time of the device.

    Args:
        report: On the equal bundle.
        case: Whom it is for.
        errand: What `incumbent_of` will find in it.
    """
    return report.model_copy(
        update={
            "job": case.job(errand),
            "search": case.search.id,
            "candidate": case.candidate.id,
            "variant": case.variant,
            "stages_s": report.stages_s if report.job == case.job(errand) else {},
        }
    )


def last_words(reports: Iterable[Report]) -> list[Report]:
    """The report that counts for each variant on each device: the latest, but for confirms that got lost.

    What was found out about it as a finalist is no word on its speed; who failed there holds no cell.

    Args:
        reports: On one candidate, oldest first.
    """
    latest: dict[tuple[int, str], Report] = {}
    for report in reports:
        case = (report.variant, report.device.name)
        if report.kind != FINAL and (case not in latest or report.outcome is not Outcome.WORKER_LOST):
            latest[case] = report
    return list(latest.values())


def record(case: EvaluationCase, report: Report) -> NewReport:
    """A report as the archive keeps it."""
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
        outcome=report.outcome.value,
        reason=report.reason,
        provenance=report.provenance.value,
        document=report.model_dump_json(),
    )


def judging_ms(report: Report) -> int:
    """What a report took on its device, milliseconds."""
    return round(1000 * sum(report.stages_s.values()))
