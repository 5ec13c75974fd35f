"""Intake of kernels from agents: submitted as candidates of a running search, or only checked for it."""

from archive.errors import RecordNotFound
from archive.records import CandidateRecord, SearchRecord, SearchState
from archive.store import Store
from service.emitters.agent import NAME as AGENT
from service.errors import Conflict, InvalidInput, Unavailable
from service.evaluation.source_checks import SourceChecks
from service.generation.submissions import AgentSubmission, AgentSubmissions
from service.operators.sources import digest
from service.requests import KernelSubmission
from service.scheduler.leases import SearchLeases
from service.security.scopes import SearchGrant
from workers.protocol import MAX_SOURCE_BYTES, Operator, TraceReport


class KernelIntake:
    """Checks what agents send, and passes it on to the parts that run the search."""

    def __init__(
        self, store: Store, leases: SearchLeases, submissions: AgentSubmissions, source_checks: SourceChecks
    ) -> None:
        self._store = store
        self._leases = leases
        self._submissions = submissions
        self._source_checks = source_checks

    async def submit(
        self, search: SearchRecord, kernel: KernelSubmission, grant: SearchGrant | None = None
    ) -> CandidateRecord:
        """Make a kernel a candidate of a running search; an equal source gives the candidate that there is.

        Args:
            search: The search.
            kernel: The kernel.
            grant: Restriction of the caller's token, if it has one.

        Raises:
            Conflict: If the search does not run, takes no candidates, or its evaluations are used.
            InvalidInput: If a parent is no candidate of this search, or the source is too long.
            RateLimited: If too many submissions wait.
            Unavailable: If no slot became free in time, or another coordinator runs the search.
        """
        if AGENT not in search.emitters:
            raise Conflict(f"this search takes no candidates: it was started without the emitter '{AGENT}'")
        _require_short(kernel.source)
        earlier = await self._store.attempts.equal(search.id, digest(kernel.source))
        if earlier is not None:
            return earlier
        counts = await self._store.candidates.count(search.id)
        if search.state is SearchState.RUNNING and counts.candidates >= search.evaluations:
            raise Conflict(f"the search has used its {search.evaluations} evaluations")
        await self._require_running(search)
        parents = [await self._parent(search, given) for given in kernel.parents]
        exchange, most = (grant.exchange or None, grant.evaluations) if grant else (None, None)
        submission = AgentSubmission(search.id, kernel.source, kernel.note, tuple(parents), exchange, most)
        return await self._submissions.submit(submission)

    async def check(self, search: SearchRecord, operator: Operator, source: str) -> TraceReport:
        """Trace and compile a source for a running search, without an evaluation.

        Raises:
            Conflict: If the search does not run.
            InvalidInput: If the source is too long.
            RateLimited: If too many checks of the search run.
            Unavailable: If no worker did it in time, or another coordinator runs the search.
        """
        _require_short(source)
        await self._require_running(search)
        return await self._source_checks.run(search, operator, source)

    async def _require_running(self, search: SearchRecord) -> None:
        if search.state is SearchState.PREPARING:
            raise Unavailable(
                "the search is being prepared: its first seed is judged first; try again in a few seconds"
            )
        if search.state is not SearchState.RUNNING:
            raise Conflict(f"the search is {search.state.value}; only a running one takes kernels")
        if not await self._leases.take(search.id):
            raise Unavailable("another coordinator runs this search; send the kernel there")

    async def _parent(self, search: SearchRecord, given: str) -> str:
        try:
            found = await self._store.candidates.get(await self._store.ids.whole("candidate", given))
        except RecordNotFound:
            found = None
        if found is None or found.search != search.id:
            raise InvalidInput(f"'{given}' is no candidate of this search", "parents")
        return found.id


def _require_short(source: str) -> None:
    """Require a source that fits into a job.

    Raises:
        InvalidInput: If it does not.
    """
    if len(source.encode()) > MAX_SOURCE_BYTES:
        raise InvalidInput(f"the source has more than {MAX_SOURCE_BYTES} bytes", "source")
