"""Facts of the archive that the next step of a variant follows from."""

import structlog

from archive.errors import RecordNotFound
from archive.records import EliteRecord, ProvisionalRecord, SearchRecord
from archive.store import Store
from service.evaluation.jobs import AGAIN, EvaluationCase, incumbent_of
from service.evaluation.next_step import CaseFacts, CellHolder, CellState, ReportFacts
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import is_unverified
from service.evaluation.retraces import RetraceRefused
from service.evaluation.unit_of_work import UnitOfWork
from workers.protocol import Outcome, Report, Trust

log = structlog.get_logger(__name__)


class FactReader:
    """Reads what is known about variants and cells."""

    def __init__(self, store: Store, unit_of_work: UnitOfWork, reference_seed: ReferenceSeed) -> None:
        self._store = store
        self._unit_of_work = unit_of_work
        self._reference_seed = reference_seed

    async def of_case(self, case: EvaluationCase, retraced: RetraceRefused | bool | None, *, leads: bool) -> CaseFacts:
        """Read what is known about a variant; `retraced` is the result of its second trace."""
        reports = await self._unit_of_work.reports(case.candidate.id)
        mine = [report for report in reports if (report.variant, report.device) == (case.variant, case.device)]
        return CaseFacts(
            bundle=case.bundle,
            measures=case.device.measures,
            trusted_trace=await self._unit_of_work.unverified_trace(case.candidate.id) is None,
            retraced=False if isinstance(retraced, RetraceRefused) else retraced,
            reports=[await self._of_report(case.search, report) for report in mine],
            leads=leads,
        )

    async def of_cell(self, case: EvaluationCase, cell: int) -> CellState:
        """Read who holds a cell; on devices that measure what is pending is committed first."""
        grid = (case.search.id, case.device.name, case.search.axes_version, cell)
        if not case.device.measures:
            objective = await self._unit_of_work.objective(*grid)
            return CellState(None if objective is None else CellHolder("", objective, objective))
        await self._unit_of_work.commit()
        try:
            elite = _held(await self._store.elites.get(*grid))
        except RecordNotFound:
            elite = None
        provisional = await self._store.provisional.get(*grid)
        return CellState(elite, None if provisional is None else _held(provisional))

    async def _of_report(self, search: SearchRecord, report: Report) -> ReportFacts:
        correct = report.outcome is Outcome.CORRECT
        if correct and report.trust is Trust.D:
            log.warning("not offered", reason="trust D", job=report.job, search=report.search)
        incumbent = incumbent_of(report)
        return ReportFacts(
            job=report.job,
            correct=correct and report.trust is not Trust.D,
            trusted=not is_unverified(report),
            speedup=await self._reference_seed.speedup(search, report) if correct else None,
            incumbent=None if incumbent == AGAIN else incumbent,
            rival=report.rival,
            reason="" if correct else f"{report.outcome}: {report.reason}",
        )


def _held(holder: EliteRecord | ProvisionalRecord) -> CellHolder:
    return CellHolder(holder.bundle, holder.objective, holder.mid)
