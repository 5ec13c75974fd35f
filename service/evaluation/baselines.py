"""Baselines of searches: taken from the first trusted report that has them, or asked for when a search would end.

Executors measure baselines beside other jobs. Until they are known, a search's measured objectives are over the pacer.
"""

from archive.records import MeasuredBaselines, SearchRecord
from archive.store import Store
from service.evaluation.assignments import JobAssignments
from service.evaluation.jobs import BASELINES, EvaluationCase
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.reports import is_unverified
from service.evaluation.speedups import baselines_of
from service.evaluation.unit_of_work import UnitOfWork
from service.events import SearchChanged
from workers.protocol import Device, Operator, Report
from workers.queue import Dispatcher

SEED_ALONE = "speedups are over the first seed kernel, as the operator asks"
"""Reason why a search has no baselines, if its operator wants none."""
NONE_RUNS = "no baseline runs this operator"
"""Reason why a search has no baselines, if its report names none."""


class SearchBaselines:
    """Relates searches to their baselines. Its memory can be rebuilt from the archive."""

    def __init__(
        self,
        store: Store,
        dispatcher: Dispatcher,
        unit_of_work: UnitOfWork,
        reference_seed: ReferenceSeed,
        assignments: JobAssignments,
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._unit_of_work = unit_of_work
        self._reference_seed = reference_seed
        self._assignments = assignments
        self._waiting: set[str] = set()

    async def relate(self, case: EvaluationCase, report: Report, *, final: bool = False) -> None:
        """Take the baselines of a search from a trusted worker's report, unless it has some.

        They are those beside the pacer, so none is taken before the verdict on the reference seed.

        Args:
            case: The case that the report is about.
            report: The report.
            final: True if it waited for the baselines: without any, their reason is kept.
        """
        device = case.device.name
        found = None if is_unverified(report) else baselines_of(report)
        if found is None and final:
            found = MeasuredBaselines(reason=report.reason or NONE_RUNS)
        if found is None or self._reference_seed.baselines(case.search, device) is not None:
            return
        if not await self._reference_seed.is_final(case.search):
            return
        await self._unit_of_work.commit()  # Objectives over the pacer are written before all of them are turned.
        if await self._reference_seed.relate(case.search, device, found):
            self._unit_of_work.events.publish(SearchChanged(search=case.search.id, state=case.search.state.value))

    async def relate_seed(self, search: SearchRecord, operator: Operator) -> None:
        """Take the baselines of a search whose reference seed is now final from the reports on that seed."""
        for name in search.devices:
            case, report = await self._of_seed(search, operator, name)
            if case is not None and report is not None:
                await self.relate(case, report)

    async def complete(self, search: SearchRecord, operator: Operator) -> bool:
        """Return True if the search has its baselines; request the missing ones once."""
        measuring = [name for name in search.devices if Device.parse(name).measures]
        lacking = [name for name in measuring if self._reference_seed.baselines(search, name) is None]
        for name in lacking if not operator.has_baselines else ():
            await self._reference_seed.relate(search, name, MeasuredBaselines(reason=SEED_ALONE))
        for name in lacking if operator.has_baselines else ():
            case, _ = await self._of_seed(search, operator, name)
            if case is None:
                continue
            await self._assignments.obtain(case, BASELINES, await self._dispatcher.outstanding(search.id))
            await self._unit_of_work.commit()
            self._waiting.add(search.id)
        return not lacking or not operator.has_baselines

    async def _of_seed(
        self, search: SearchRecord, operator: Operator, device: str
    ) -> tuple[EvaluationCase, Report] | tuple[None, None]:
        """Return the first correct variant of the reference seed on a device, with the report on it."""
        report = await self._reference_seed.report(search, device)
        if report is None:
            return None, None
        seed = await self._store.candidates.get(report.candidate)
        return EvaluationCase(search, operator, seed, report.variant, report.bundle, report.device), report

    def awaits(self, search: str) -> bool:
        """Return True if a search that would end waits for its baselines."""
        return search in self._waiting

    def forget(self, search: str) -> None:
        """Clear the in-memory state of a search; the next sweep rebuilds it."""
        self._waiting.discard(search)
