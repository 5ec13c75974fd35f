"""Queue of the KernelBench campaign on one card: problems are searched for side by side, and compared in between.

Problems get ready at the same time, as far as `beside` allows: most of that is tracing and compiling on the host, and a
seed has the card for a second or two. Those that are ready are searched for in rounds, `together` at the same time, and
join a round that goes on. A search ends when it has had its seconds of the card, which searches at the same time share
evenly, when its lead is stale, or by itself. After a round the best kernels are compared with the baselines, while
further problems get ready. No search runs meanwhile, and nothing is compiled ahead. Of `comparing` comparisons at the
same time one has the card alone while it tunes or times: the others compile on their own cores.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from archive.records import (
    CandidateRecord,
    CandidateState,
    EliteRecord,
    ProvisionalRecord,
    SearchRecord,
    SearchState,
)
from benchmarks.baseline_comparison import Compare, compared
from benchmarks.compile_ahead import CompileAhead
from benchmarks.figures import Row
from benchmarks.kernelbench_lot import row_key
from benchmarks.kernelbench_pace import COMPARE_S, CampaignPace, CardSeconds, SearchProgress
from benchmarks.kernelbench_prepare import DEFAULT, GATE
from benchmarks.searches import POLL_S, CardQueue, RowLog, SearchTerms
from benchmarks.suites import SuiteEntry
from service.coordinator import Coordinator
from service.errors import Conflict, ServiceError
from service.operators.catalogue import load_operator
from service.requests import SearchRequest
from workers.protocol import Bundle, Graph, MutationReport, Operator

RULES, MODEL = "rules", "model"
LANDING_S = 10.0
"""Maximum seconds of the card beyond a search's own until its seeds are judged and the leading kernel is confirmed."""
CLOSING_S = 5.0
"""Seconds of a search that begins last, before it is compared."""
SECONDS, STALE, TIME, ITSELF = "seconds", "stale", "time", "itself"
"""Ends of searches: its seconds, no other lead for a while, the sitting's time, or nothing left to propose."""
REASON_CHARS = 300


@dataclass(frozen=True)
class CampaignEntry(SuiteEntry):
    """A problem under a contract.

    Attributes:
        problem: Its file, such as `level1/19_ReLU.py`.
        column: Its contract, one of `kernelbench_prepare.CONTRACTS`.
        how: `RULES`, or `MODEL` if a model's kernels are seeds too.
        answers: Kernels that a model wrote for it. They are seeds before those that were prepared, the latest first:
            the first right one is the pacer of the search, and drafted convolutions are slow ones.
    """

    problem: str = ""
    column: str = DEFAULT
    how: str = RULES
    answers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Key of a row."""
        return row_key(self.problem, self.column, self.how)

    def contract(self) -> dict[str, Any]:
        """Return the operator's spec as JSON, with all seeds."""
        spec = super().contract()
        return {**spec, "seeds": [*reversed(self.answers), *spec["seeds"]]}


class ClaimedEntries:
    """Entries that several processes share: each is taken by the first that asks.

    Args:
        entries: All entries.
        folder: Folder of empty files, one per claim; a new one for each sitting.
    """

    def __init__(self, entries: Sequence[CampaignEntry], folder: Path) -> None:
        self._entries, self._folder = iter(entries), folder
        folder.mkdir(parents=True, exist_ok=True)

    def claim(self) -> CampaignEntry | None:
        """Take the next entry that nobody took; None if there is none."""
        for entry in self._entries:
            with suppress(FileExistsError):
                (self._folder / entry.key.replace("/", "_").replace(" ", "_")).touch(exist_ok=False)
                return entry
        return None


@dataclass(frozen=True)
class CampaignTerms(SearchTerms):
    """Settings of a sitting. `seconds` of a search are seconds of the card.

    Attributes:
        beside: Number of problems that get ready at the same time, and maximum number of searches in a round.
        together: Number of searches at the same time.
        comparing: Number of comparisons at the same time. The lock of the card has one tune or time, and keeps the
            others out.
        stale_s: Seconds of the card without another leading kernel after which a search ends.
    """

    beside: int = 1
    together: int = 1
    comparing: int = 1
    stale_s: float = 10.0


@dataclass(frozen=True)
class ReadyProblem:
    """A problem whose first seed has a verdict, or that has failed.

    Attributes:
        entry: The problem.
        search: Its search, which is paused if it can run.
        ready_s: Seconds that this took.
    """

    entry: CampaignEntry
    search: SearchRecord
    ready_s: float


@dataclass(frozen=True)
class CampaignFind:
    """The best kernel of a search that has ended.

    Attributes:
        entry: The problem.
        search: Its search.
        row: What is known of it.
        bundle: The kernel.
    """

    entry: CampaignEntry
    search: SearchRecord
    row: Row
    bundle: Bundle


class CampaignQueue(CardQueue):
    """Problems on one card.

    Args:
        coordinator: Runs the searches.
        terms: Settings of the sitting.
        note: Receives rows.
        compare: Compares what was found; None where nothing is timed.
        entries: The queue.
        ahead: Compiles baselines as soon as a problem's reference is exported.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        terms: CampaignTerms,
        note: RowLog,
        compare: Compare | None,
        entries: ClaimedEntries,
        *,
        ahead: CompileAhead | None = None,
    ) -> None:
        # What would be ready later than that could not be searched for and compared.
        latest = terms.until - CLOSING_S - (0.0 if compare is None else COMPARE_S)
        super().__init__(coordinator, replace(terms, until=latest), note, compare, ahead=ahead)
        self._entries, self._campaign = entries, terms
        self._pace = CampaignPace(compare_s=[0.0] if compare is None else [])
        self._card, self._began = CardSeconds(), time.monotonic()
        self._preparing: set[asyncio.Task[None]] = set()
        self._ready_problems: deque[ReadyProblem] = deque()
        self._due = 0
        self._answers: dict[str, tuple[str, ...]] = {}
        self._progress: dict[str, SearchProgress] = {}
        self._moments: dict[str, Row] = {}
        self._ends: dict[str, str] = {}

    async def run_all(self) -> None:
        """Search for problems as long as another one fits into the time that is left."""
        self._fill()
        while self._preparing or self._ready_problems:
            await self._compare_all(await self._round())

    def _fill(self) -> None:
        """Let further problems get ready; those that are begun have the card before them."""
        while (ahead := len(self._preparing) + len(self._ready_problems)) < self._campaign.beside:
            left_s = self._campaign.until - time.monotonic()
            if left_s < self._pace.needed_s(self._due + ahead) or (entry := self._entries.claim()) is None:
                return
            self._preparing.add(asyncio.create_task(self._prepare(entry)))

    async def _prepare(self, entry: CampaignEntry) -> None:
        """Have a problem's first seed judged; the search then waits for its turn."""
        started = time.monotonic()
        try:
            search = await self._waiting(entry)
            self._answers[search.id] = entry.answers
            self._moments[search.id] = {}
            self._mark(search, "submitted")
            compiling = asyncio.create_task(self._compile_ahead(entry, search))
            search = await self._ready(search)
            compiling.cancel()
            if search.state is SearchState.RUNNING:
                with suppress(Conflict):  # It may have ended just now.
                    search = await self._coordinator.pause(search.id)
        except ServiceError as error:
            self._note(entry, {**self._head(entry, None), "state": "failed", "reason": str(error)[:500]})
        else:
            self._mark(search, "ready")
            ready_s = time.monotonic() - started
            if search.state is SearchState.PREPARING and ready_s < self._campaign.ready_s:
                await self._coordinator.stop(search.id)  # The sitting ends; another one tries again.
            else:
                self._pace.ready_s.append(ready_s)
                self._ready_problems.append(ReadyProblem(entry, search, round(ready_s, 1)))
        task = asyncio.current_task()
        assert task is not None
        self._preparing.discard(task)
        self._fill()

    async def _round(self) -> list[CampaignFind]:
        """Search for problems that are ready, and for those that become ready meanwhile."""
        terms, found = self._campaign, list[CampaignFind]()
        searching: set[asyncio.Task[CampaignFind | None]] = set()
        while True:
            while self._ready_problems and len(searching) < min(terms.together, terms.beside - len(found)):
                self._due += 1
                searching.add(asyncio.create_task(self._search(self._ready_problems.popleft())))
            self._fill()
            if not searching and (found or not self._preparing):
                return found
            await asyncio.wait({*searching, *self._preparing}, return_when=asyncio.FIRST_COMPLETED)
            for task in [each for each in self._preparing if each.done()]:
                task.result()  # It is left there if it failed.
            ended = {each for each in searching if each.done()}
            searching -= ended
            found += [kernel for each in ended if (kernel := each.result()) is not None]
            self._due -= sum(each.result() is None for each in ended)

    async def _search(self, ready: ReadyProblem) -> CampaignFind | None:
        """Search for a problem that is ready. None if no kernel is correct."""
        entry, search = ready.entry, ready.search
        try:
            if search.state is SearchState.PAUSED:
                search = await self._coordinator.resume(search.id)
                self._card.begin(search.id)
            self._mark(search, "search")
            told = {**self._head(entry, search), "ready_s": ready.ready_s}
            row, best = await self._row(entry, search, self._terms.seconds, told)
        except ServiceError as error:
            self._note(entry, {**self._head(entry, search), "state": "failed", "reason": str(error)[:500]})
            return None
        finally:
            self._card.end(search.id)
        if best is None:
            return None
        self._pace.card_s.append(row["card_s"])
        return CampaignFind(entry, await self._coordinator.store.searches.get(search.id), row, best)

    async def _compare_all(self, found: Sequence[CampaignFind]) -> None:
        """Compare what was found, `comparing` at a time. Nothing is compiled ahead meanwhile."""
        free = asyncio.Semaphore(self._campaign.comparing)
        with nullcontext() if self._ahead is None else self._ahead.held():
            await asyncio.gather(*(self._compare_one(kernel, free) for kernel in found))

    async def _compare_one(self, kernel: CampaignFind, free: asyncio.Semaphore) -> None:
        """Compare a kernel with the baselines, and note it."""
        async with free:
            if self._compare is not None:
                self._mark(kernel.search, "compare")
                figures = await compared(self._compare, kernel.entry, kernel.search.graphs, kernel.bundle)
                self._mark(kernel.search, "compared")
                kernels = None if self._ahead is None else self._ahead.kernels
                moments = self._moments[kernel.search.id]
                self._note(kernel.entry, {**kernel.row, **figures, "kernels": kernels, "moments": moments})
                self._pace.compare_s.append(figures["compare_s"] / self._campaign.comparing)
        self._due -= 1
        self._fill()

    async def _goes_on(self, search: SearchRecord, ran_s: float, seconds: float) -> bool:
        """Return True within a search's seconds of the card, unless its lead is stale; longer until kernels landed."""
        progress = self._progress.setdefault(search.id, SearchProgress())
        card_s = self._card.had_s(search.id)
        evaluated = (await self._coordinator.store.candidates.count(search.id)).evaluated
        progress.note(await self._leader(search), card_s, evaluated)
        if time.monotonic() + self._pace.compared_s(self._due) >= self._campaign.until:
            self._ends[search.id] = TIME
            return False
        self._ends[search.id] = STALE if progress.is_stale(card_s, evaluated, self._campaign.stale_s) else SECONDS
        if card_s < seconds and self._ends[search.id] == SECONDS:
            return True
        return card_s < seconds + LANDING_S and await self._is_landing(search)

    async def _leader(self, search: SearchRecord) -> str | None:
        """Return the candidate with the largest objective, confirmed or not."""
        held, best = await self._leaders(search)
        leaders = sorted((each for each in (held, best) if each is not None), key=lambda each: each.objective)
        return leaders[-1].candidate if leaders else None

    async def _leaders(self, search: SearchRecord) -> tuple[ProvisionalRecord | None, EliteRecord | None]:
        """Return the best kernel that waits for its confirm, and the best that has passed it."""
        store, grid = self._coordinator.store, (search.id, self._terms.device.name)
        held = await store.provisional.list(*grid, search.axes_version)
        return next(iter(held), None), await store.elites.best(*grid)

    def _mark(self, search: SearchRecord, event: str) -> None:
        """Note when something happened to a problem, in seconds since the sitting began to search."""
        self._moments[search.id][event] = round(time.monotonic() - self._began, 1)

    async def _is_landing(self, search: SearchRecord) -> bool:
        """Return True if one of the first seeds has no verdict yet, or the leading kernel is not confirmed."""
        seeds = await self._coordinator.store.candidates.seeds(search.id)
        if any(seed.state is not CandidateState.JUDGED for seed in seeds):
            return True
        held, best = await self._leaders(search)
        return held is not None and (best is None or held.objective > best.objective)

    async def _found(self, search: SearchRecord) -> tuple[Row, Bundle | None]:
        """Return the result of a search that has ended, with the verdicts on a model's kernels."""
        is_itself = search.state is SearchState.DONE
        if is_itself:
            search = await self._settled(search)
        self._card.end(search.id)
        self._mark(search, "found")
        row, best = await super()._found(search)
        row |= {
            "card_s": round(self._card.had_s(search.id), 1),
            "ended": ITSELF if is_itself else self._ends.get(search.id, ""),
            "moments": self._moments[search.id],
        }
        answers = self._answers.get(search.id, ())
        row["answered"] = answered(await self._coordinator.store.candidates.seeds(search.id), answers)
        return row | ({"emitter": MODEL} if row.get("source") in answers else {}), best

    async def _settled(self, search: SearchRecord) -> SearchRecord:
        """Wait until the lead of a search that is done is confirmed; its finalists would have the card for minutes."""
        until = time.monotonic() + LANDING_S
        while time.monotonic() < until and await self._is_landing(search):
            await asyncio.sleep(POLL_S)
        states, done = self._coordinator.store.searches, (SearchState.DONE,)
        return await states.set_state(search.id, SearchState.STOPPED, reason=search.reason, only_from=done)

    async def _root_emitter(self, candidate: CandidateRecord) -> str:
        """Return `MODEL` for a line that one of a model's kernels began, else the emitter of its first candidate."""
        root = await self._root(candidate)
        return MODEL if root.source in self._answers.get(root.search, ()) else root.emitter

    async def _compile_ahead(self, entry: CampaignEntry, search: SearchRecord) -> None:
        """Have a problem's baselines compiled when its reference is exported."""
        while not search.graphs:
            await asyncio.sleep(POLL_S)
            search = await self._coordinator.store.searches.get(search.id)
        self._mark(search, "exported")
        if self._ahead is not None:
            self._ahead.ask(*timed_reference(entry, [Graph.model_validate(each) for each in search.graphs]))

    def _head(self, entry: SuiteEntry, search: SearchRecord | None) -> Row:
        """Return what a row says of its problem, contract and mutation testing."""
        assert isinstance(entry, CampaignEntry)
        told: Row = {
            "problem": entry.problem,
            "contract": entry.column,
            "how": entry.how,
            "answers": len(entry.answers),
        }
        return {**told, "budget_s": self._terms.seconds, "admitted": "" if search is None else search.admitted}

    def _request(self, entry: SuiteEntry) -> SearchRequest:
        """Go on where mutation testing fails the operator, with a mark. Speedups of the search are over its first seed.

        So nothing of PyTorch runs beside a search; the comparison times it.
        """
        request = super()._request(entry)
        assert isinstance(request.operator, dict)
        return request.model_copy(update={"admit": True, "operator": {**request.operator, "baselines": ["seed"]}})

    async def _waiting(self, entry: SuiteEntry) -> SearchRecord:
        """Submit a search, with the mutation report that was made before the card."""
        search = await super()._waiting(entry)
        report = entry.home / GATE if entry.home is not None else None
        if report is not None and report.exists():
            gate = MutationReport.model_validate_json(report.read_text())
            store = self._coordinator.store
            if gate.verdict == "failed":
                await store.searches.set_admitted(search.id, gate.reason)
            await store.operators.keep_mutation_report(search.operator, gate.verdict, gate.model_dump_json())
        return search


def answered(seeds: Sequence[CandidateRecord], answers: Sequence[str]) -> list[Row]:
    """Return the verdicts on a model's kernels among the seeds of a search."""
    return [
        {
            "number": 1 + answers.index(seed.source),
            "outcome": seed.outcome,
            "reason": seed.reason[:REASON_CHARS],
            "objective": seed.objective,
        }
        for seed in seeds
        if seed.source in answers
    ]


def timed_reference(entry: SuiteEntry, graphs: Sequence[Graph]) -> tuple[Operator, Graph]:
    """Return a problem's operator, with the baselines that are asked for, and its graph at the published size."""
    assert entry.home is not None
    operator = load_operator(entry.home)
    asked = operator.baselines if entry.baselines is None else entry.baselines
    return operator.model_copy(update={"baselines": asked}), next(
        each for each in graphs if each.shape.dims == dict(entry.dims)
    )
