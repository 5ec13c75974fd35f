"""Admissions: references of searches, and mutation testing of operators, which comes before the first proposal."""

from collections.abc import Collection

from archive.records import SearchRecord
from archive.store import Store
from service.evaluation.jobs import admission_id, admission_job, reference_id, reference_job
from service.evaluation.verdicts import Verdicts
from workers.protocol import Operator, Outcome, TraceReport
from workers.queue import Dispatcher

NOT_ADMITTED = "the operator is not admitted"
"""Start of the reason of a search that mutation testing ended."""
ADMIT = "`--admit` (`admit` of a request) searches all the same, and marks what it finds"
"""Its end: the way on."""


async def is_admitted(store: Store, search: SearchRecord) -> bool:
    """Return True if the checks of a search's operator passed since its submission, or it goes on without that.

    Older reports do not count, because the checks may have changed. A failed report counts only for the search that
    asked for it: it ends that search, or marks it.
    """
    if search.admitted:
        return True
    found = (await store.operators.mutation_reports_of([search.operator])).get(search.operator)
    return found is not None and found.created_at >= search.created_at and found.verdict != "failed"


class Admissions:
    """Requests references and mutation testing, and applies both. They run beside the traces of the first seeds."""

    def __init__(self, store: Store, dispatcher: Dispatcher, verdicts: Verdicts) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._verdicts = verdicts
        self._ordered: set[str] = set()

    async def obtain(self, search: SearchRecord, operator: Operator) -> bool:
        """Return True if the operator of a search is admitted; otherwise request that, unless it is pending."""
        if await is_admitted(self._store, search):
            self._ordered.discard(search.id)
            return True
        if search.id not in self._ordered:
            await self._dispatcher.submit(admission_job(search, operator))
            self._ordered.add(search.id)
        return False

    async def sweep(self, search: SearchRecord, operator: Operator, queued: Collection[str]) -> None:
        """Request the reference that a search lacks, and allow a new admission, unless their jobs are in the queue."""
        if not search.graphs and reference_id(search.id) not in queued:
            await self._dispatcher.submit(reference_job(search, operator))
        if admission_id(search.id) not in queued:
            self._ordered.discard(search.id)

    async def apply(self, search: SearchRecord, operator: Operator, report: TraceReport) -> None:
        """Store a search's reference graphs and mutation report, or fail the search with the reason.

        Candidates that were traced before the graphs came are evaluated from then on.
        """
        failure = report.gate.reason if report.gate is not None and report.gate.verdict == "failed" else ""
        if failure and search.admit:  # The mark comes first: with the report kept, the search may propose.
            await self._store.searches.set_admitted(search.id, failure)
        if report.gate is not None:
            await self._store.operators.keep_mutation_report(
                search.operator, report.gate.verdict, report.gate.model_dump_json()
            )
        if report.outcome is Outcome.WORKER_LOST:
            await self._verdicts.failures.fail(search, f"its reference could not be prepared: {report.reason}")
        elif not report.graphs:
            await self._verdicts.failures.fail(search, f"the reference does not export: {report.reason}")
        elif failure and not search.admit:
            await self._verdicts.failures.fail(search, f"{NOT_ADMITTED}: {failure}. {ADMIT}")
        elif not search.graphs:
            await self._store.searches.set_graphs(search.id, [graph.plain() for graph in report.graphs])
            await self._verdicts.unit_of_work.commit()  # Traces that came with this report are read from the archive.
            await self._verdicts.order_traced(await self._store.searches.get(search.id), operator, ())
