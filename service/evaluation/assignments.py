"""Evaluation requests: a bundle in flight is judged once, for all cases that wait for it."""

from collections.abc import Collection

from archive.records import EMPTY_CELL
from archive.store import ReportKey, Store
from service.evaluation.jobs import AGAIN, BASELINES, EvaluationCase, confirm_job, incumbent_of, measure_job
from service.evaluation.pending import Pending
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import addressed, is_unverified
from service.evaluation.unit_of_work import UnitOfWork
from workers.protocol import PROTOCOL_VERSION, ConfirmJob, MeasureJob, Outcome, Report

Work = tuple[str, str, str, str | None]
"""Key of a job's result: operator, bundle, device, and a confirm's incumbent bundle (`AGAIN` for a repeat)."""


class JobAssignments:
    """Sends jobs on bundles whose reports the archive lacks."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork, reference_seed: ReferenceSeed) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._reference_seed = reference_seed
        self._waiting: Pending[Work, EvaluationCase] = Pending()

    async def obtain(self, case: EvaluationCase, incumbent: str | None, queued: Collection[str]) -> Report | None:
        """Return the report on an equal bundle from the archive; None if the case now waits for a job.

        Args:
            case: The case to judge.
            incumbent: None to measure it, `AGAIN` to have a trusted worker repeat that, `BASELINES` to have it wait for
                the baselines; else the bundle to confirm it against, or `EMPTY_CELL`.
            queued: Ids of jobs that are in the queue already.
        """
        work = _work(case, incumbent)
        if self._waiting.has(work, case):
            return None
        found = await self._find(case, incumbent)
        if found is not None:
            return addressed(found, case, incumbent)
        if self._waiting.join(work, case) and case.job(incumbent) not in queued:
            self._unit_of_work.send(
                await self._job(case, incumbent), reserved=case.is_reference_seed or incumbent is not None
            )
        return None

    async def refutation(self, case: EvaluationCase) -> Report | None:
        """Return a confirm that found an equal bundle wrong, in whatever search; None if there is none."""
        wrong = [report for report in await self._confirms(case) if report.outcome is not Outcome.CORRECT]
        return addressed(wrong[0], case, incumbent_of(wrong[0])) if wrong else None

    def claim(self, report: Report, asked: EvaluationCase) -> list[EvaluationCase]:
        """Return all cases that wait for a report, including the one that its job names, and clear them."""
        waiting = self._waiting.claim(_work(asked, incumbent_of(report)))
        return waiting if any(asked.same(other) for other in waiting) else [*waiting, asked]

    def awaits(self, candidate: str) -> bool:
        """Return True if a job for this candidate is pending."""
        return self._waiting.awaits(candidate)

    def forget(self, search: str) -> set[str]:
        """Clear the in-memory state of a search. Returns the other searches that waited for its jobs."""
        return self._waiting.forget(search)

    async def _find(self, case: EvaluationCase, incumbent: str | None) -> Report | None:
        about = ReportKey(case.search.operator, case.bundle, case.device.name, PROTOCOL_VERSION)
        if incumbent == BASELINES:
            return None
        if incumbent is None or incumbent == AGAIN:
            known = await self._unit_of_work.measures(about)
            sure = next((report for report in known if not is_unverified(report)), None)
            return sure if sure or case.is_reference_seed or incumbent == AGAIN else next(iter(known), None)
        known = await self._confirms(case)
        wrong = (report for report in known if report.outcome is not Outcome.CORRECT)
        return next(wrong, None) or next((report for report in known if incumbent_of(report) == incumbent), None)

    async def _confirms(self, case: EvaluationCase) -> list[Report]:
        """Return the confirms of equal bundles by trusted workers, oldest first."""
        await self._unit_of_work.commit()
        about = ReportKey(case.search.operator, case.bundle, case.device.name, PROTOCOL_VERSION)
        reports = [Report.model_validate_json(document) for document in await self._store.reports.confirms(about)]
        return [report for report in reports if not is_unverified(report)]

    async def _job(self, case: EvaluationCase, incumbent: str | None) -> MeasureJob | ConfirmJob:
        bundle = await self._unit_of_work.bundle(case.bundle)
        pacer = await self._reference_seed.pacer(case.search, case.device.name) if case.device.measures else None
        if incumbent in (None, AGAIN, BASELINES):
            return measure_job(case, bundle, pacer, incumbent)
        rival = None if incumbent == EMPTY_CELL else await self._unit_of_work.bundle(incumbent)
        return confirm_job(case, bundle, rival, pacer)


def _work(case: EvaluationCase, incumbent: str | None) -> Work:
    return case.operator.digest, case.bundle, case.device.name, incumbent
