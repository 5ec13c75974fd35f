"""Queue of the KernelBench campaign on one card: several problems side by side, compared one by one.

Problems get ready at the same time, as far as `beside` allows: most of that is tracing and compiling on the host, and a
seed has the card for a second or two. Those that are ready are searched for at the same time. Then their best kernels
are compared with the baselines one by one, while further problems get ready; no search runs meanwhile, and the lock of
the card keeps all others out while anything is tuned or timed.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from archive.records import CandidateRecord, CandidateState, SearchRecord, SearchState
from benchmarks.baseline_comparison import Compare, compared
from benchmarks.compile_ahead import CompileAhead
from benchmarks.figures import Row
from benchmarks.kernelbench_prepare import DEFAULT, GATE
from benchmarks.searches import POLL_S, CardQueue, RowLog, SearchTerms
from benchmarks.suites import SuiteEntry
from service.coordinator import Coordinator
from service.errors import Conflict, ServiceError
from service.operators.catalogue import load_operator
from service.requests import SearchRequest
from workers.protocol import Bundle, Graph, MutationReport, Operator

RULES, MODEL = "rules", "model"
READY_S, COMPARE_S = 25.0, 20.0
"""Seconds until a problem's first seed is judged, and of a comparison, before any is known."""
LATEST = 8
"""Number of latest problems whose median tells if another one fits."""
LANDING_S = 30.0
"""Maximum seconds beyond a search's own until its seeds are judged, or those of a model, and the leading
kernel is confirmed."""
REASON_CHARS = 300


@dataclass(frozen=True)
class CampaignEntry(SuiteEntry):
    """A problem under a contract.

    Attributes:
        problem: Its file, such as `level1/19_ReLU.py`.
        column: Its contract, one of `kernelbench_prepare.CONTRACTS`.
        how: `RULES`, or `MODEL` if a model's kernels are seeds too.
        answers: Kernels that a model wrote for it. They are seeds before those that were prepared: the first right one
            is the pacer of the search, and drafted convolutions are slow ones.
    """

    problem: str = ""
    column: str = DEFAULT
    how: str = RULES
    answers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Key of a row."""
        return f"{self.problem} {self.column} {self.how}"

    def contract(self) -> dict[str, Any]:
        """Return the operator's spec as JSON, with all seeds."""
        spec = super().contract()
        return {**spec, "seeds": [*self.answers, *spec["seeds"]]}


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


@dataclass
class CampaignPace:
    """Seconds that the problems of a sitting took so far, for the decision if another one fits."""

    ready_s: list[float] = field(default_factory=list)
    compare_s: list[float] = field(default_factory=list)

    def needed_s(self, seconds: float, before: int) -> float:
        """Return the seconds until one more problem is done.

        Args:
            seconds: Seconds of a search.
            before: Number of problems that are compared before it.
        """
        ready_s = median(self.ready_s[-LATEST:] or [READY_S])
        compare_s = median(self.compare_s[-LATEST:] or [COMPARE_S])
        return max(ready_s, before * compare_s) + seconds + compare_s


class CampaignQueue(CardQueue):
    """Problems on one card.

    Args:
        coordinator: Runs the searches.
        terms: Settings of the searches.
        note: Receives rows.
        compare: Compares what was found; None where nothing is timed.
        entries: The queue.
        ahead: Compiles baselines as soon as a problem's reference is exported.
        beside: Number of problems that get ready at the same time.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        terms: SearchTerms,
        note: RowLog,
        compare: Compare | None,
        entries: ClaimedEntries,
        *,
        ahead: CompileAhead | None = None,
        beside: int = 1,
    ) -> None:
        super().__init__(coordinator, terms, note, compare, ahead=ahead)
        self._entries, self._beside = entries, beside
        self._pace = CampaignPace()
        self._preparing: set[asyncio.Task[ReadyProblem | None]] = set()
        self._answers: dict[str, tuple[str, ...]] = {}

    async def run_all(self) -> None:
        """Search for problems as long as another one fits into the time that is left."""
        comparing, due = asyncio.create_task(asyncio.sleep(0)), 0
        self._fill(due)
        while self._preparing:
            await asyncio.wait(self._preparing, return_when=asyncio.FIRST_COMPLETED)
            await comparing
            ended = {task for task in self._preparing if task.done()}
            self._preparing -= ended
            ready = [each for task in ended if (each := task.result()) is not None]
            self._fill(len(ready))
            found = await asyncio.gather(*map(self._search, ready))
            comparing = asyncio.create_task(self._compare_all([each for each in found if each is not None]))
        await comparing

    def _fill(self, due: int) -> None:
        """Let further problems get ready; `due` others are compared before them."""
        while len(self._preparing) < self._beside:
            needed_s = self._pace.needed_s(self._terms.seconds, due + len(self._preparing))
            if self._terms.until - time.monotonic() < needed_s or (entry := self._entries.claim()) is None:
                return
            self._preparing.add(asyncio.create_task(self._prepare(entry)))

    async def _prepare(self, entry: CampaignEntry) -> ReadyProblem | None:
        """Have a problem's first seed judged; the search then waits for its turn. None if it failed."""
        started = time.monotonic()
        try:
            search = await self._waiting(entry)
            self._answers[search.id] = entry.answers
            compiling = asyncio.create_task(self._compile_ahead(entry, search))
            search = await self._ready(search)
            compiling.cancel()
            if search.state is SearchState.RUNNING:
                with suppress(Conflict):  # It may have ended just now.
                    search = await self._coordinator.pause(search.id)
        except ServiceError as error:
            self._note(entry, {**self._head(entry, None), "state": "failed", "reason": str(error)[:500]})
            return None
        self._pace.ready_s.append(time.monotonic() - started)
        return ReadyProblem(entry, search, round(self._pace.ready_s[-1], 1))

    async def _search(self, ready: ReadyProblem) -> tuple[CampaignEntry, SearchRecord, Row, Bundle] | None:
        """Search for a problem that is ready. None if no kernel is correct."""
        entry, search = ready.entry, ready.search
        try:
            if search.state is SearchState.PAUSED:
                search = await self._coordinator.resume(search.id)
            told = {**self._head(entry, search), "ready_s": ready.ready_s}
            row, best = await self._row(entry, search, self._terms.seconds, told)
        except ServiceError as error:
            self._note(entry, {**self._head(entry, search), "state": "failed", "reason": str(error)[:500]})
            return None
        return None if best is None else (entry, await self._coordinator.store.searches.get(search.id), row, best)

    async def _compare_all(self, found: Sequence[tuple[CampaignEntry, SearchRecord, Row, Bundle]]) -> None:
        """Compare what was found, one by one, and note it."""
        for entry, search, row, best in found:
            if self._compare is None:
                return
            kernels = [] if self._ahead is None else [self._ahead.kernels]
            figures = await compared(self._compare, entry, search.graphs, best)
            kernels += [] if self._ahead is None else [self._ahead.kernels]
            self._note(entry, {**row, **figures, "kernels": kernels})
            self._pace.compare_s.append(figures["compare_s"])

    async def _goes_on(self, search: SearchRecord, ran_s: float, seconds: float) -> bool:
        """Return True within a search's seconds, and a while longer until its kernels have landed."""
        return ran_s < seconds or (ran_s < seconds + LANDING_S and await self._is_landing(search))

    async def _is_landing(self, search: SearchRecord) -> bool:
        """Return True if one of the first seeds has no verdict yet, or the leading kernel is not confirmed."""
        store, grid = self._coordinator.store, (search.id, self._terms.device.name)
        seeds, answers = await store.candidates.seeds(search.id), self._answers.get(search.id, ())
        if any(seed.state is not CandidateState.JUDGED for seed in seeds if not answers or seed.source in answers):
            return True
        held, best = await store.provisional.list(*grid, search.axes_version), await store.elites.best(*grid)
        return bool(held) and (best is None or held[0].objective > best.objective)

    async def _found(self, search: SearchRecord) -> tuple[Row, Bundle | None]:
        """Return the result of a search, with the verdicts on a model's kernels."""
        row, best = await super()._found(search)
        answers = self._answers.get(search.id, ())
        row["answered"] = [
            {
                "number": 1 + answers.index(seed.source),
                "outcome": seed.outcome,
                "reason": seed.reason[:REASON_CHARS],
                "objective": seed.objective,
            }
            for seed in await self._coordinator.store.candidates.seeds(search.id)
            if seed.source in answers
        ]
        return row | ({"emitter": MODEL} if row.get("source") in answers else {}), best

    async def _root_emitter(self, candidate: CandidateRecord) -> str:
        """Return `MODEL` for a line that one of a model's kernels began, else the emitter of its first candidate."""
        root = await self._root(candidate)
        return MODEL if root.source in self._answers.get(root.search, ()) else root.emitter

    async def _compile_ahead(self, entry: CampaignEntry, search: SearchRecord) -> None:
        """Have a problem's baselines compiled when its reference is exported."""
        while self._ahead is not None:
            search = await self._coordinator.store.searches.get(search.id)
            if search.graphs:
                self._ahead.ask(*timed_reference(entry, [Graph.model_validate(each) for each in search.graphs]))
                return
            await asyncio.sleep(POLL_S)

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
        """Go on where mutation testing fails the operator, with a mark."""
        return super()._request(entry).model_copy(update={"admit": True})

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


def timed_reference(entry: SuiteEntry, graphs: Sequence[Graph]) -> tuple[Operator, Graph]:
    """Return a problem's operator and its graph at the published size."""
    assert entry.home is not None
    return load_operator(entry.home), next(each for each in graphs if each.shape.dims == dict(entry.dims))
