"""The page of a search: state, map of elites, progress, emitters, outcomes and guidance."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from archive.grid import Grid
from archive.progress import dropped
from archive.records import (
    BudgetRecord,
    CandidateRow,
    EliteSummary,
    HintRecord,
    PinRecord,
    ProgressRecord,
    SearchCounts,
    SearchRecord,
    SearchState,
    StrategyStatsRecord,
)
from archive.store import Store
from kernelreef.models import FinalistResult, ScreeningReport
from kernelreef.short_ids import brief
from kernelreef.states import ENDED
from service.coordinator import Coordinator
from service.dashboard.charts import draw_charts, spacing_for
from service.dashboard.maps import ArchiveMap, MapView, Tile, draw, load_cells, mark_provisional
from service.dashboard.rendering import Fragment, HtmlPage
from service.evaluation.activity import elapsed_s
from service.evaluation.admissions import NOT_ADMITTED
from service.evaluation.feasibility import count_impossible
from service.evaluation.figure_labels import in_words, provenance, relative_to, stamp_of
from service.evaluation.finalists import examination
from service.generation.emitter_stats import EmitterStats, emitter_shares, read_stats, selection_of
from service.generation.screening import screening_report
from service.generation.stop_rules import seconds_left
from workers.protocol import Device
from workers.targets import TARGETS

POINTS = 250
"""Approximate number of points in a chart: one per pixel or two."""
RECENT = 12
"""Number of candidates in the list of recent ones."""


@dataclass(frozen=True)
class DeviceTab:
    """A device of the search with its best result."""

    device: str
    provenance: str
    best: float | None
    coverage: float
    address: str
    chosen: bool


@dataclass(frozen=True)
class SearchStatus(Fragment):
    """State of the search, its best result and its devices; `activity` is what it does now, empty if nothing.

    `finalist` is the result of the best elite's examination. `left_s` is what the stop rule `seconds` leaves of the
    running time; None without that rule. `impossible` is the number of cells that no kernel can reach.
    """

    template = "parts/status.html"
    name = "status"

    search: SearchRecord
    counts: SearchCounts
    best: EliteSummary | None
    finalist: FinalistResult
    progress: ProgressRecord
    provenance: str
    relative_to: str
    missing_workers: tuple[str, ...]
    tabs: tuple[DeviceTab, ...]
    activity: str
    elapsed_s: float
    left_s: float | None
    impossible: int

    @property
    def open(self) -> bool:
        """True until the search has ended."""
        return self.search.state not in ENDED

    @property
    def done(self) -> float:
        """Share of the maximum number of evaluations that is used up, 0 to 1."""
        return min(self.counts.candidates / self.search.evaluations, 1.0)


@dataclass(frozen=True)
class SearchControls(Fragment):
    """Actions that the search's present state allows. `ended` is True if it can be deleted, `failed` if it failed.

    `refused` is True if mutation testing failed its operator, and whoever may can go on all the same.
    `more` is the number of evaluations to extend a done search to; None if it is not done.
    """

    template = "parts/controls.html"
    name = "controls"

    search: str
    actions: tuple[tuple[str, str], ...]
    ended: bool
    failed: bool
    refused: bool
    more: int | None


@dataclass(frozen=True)
class UseIt(Fragment):
    """Ways to use the result of an ended search: its best kernel, exports and the certificate.

    Empty before the end, and if mutation testing refused the operator: nothing then says that a kernel is right.
    """

    template = "parts/use.html"
    name = "use"

    search: SearchRecord
    device: str
    provenance: str
    best: EliteSummary | None
    finalist: FinalistResult
    ended: bool

    @property
    def refused(self) -> bool:
        """True if mutation testing ended the search."""
        return self.search.reason.startswith(NOT_ADMITTED)


@dataclass(frozen=True)
class MapPart(Fragment):
    """The archive as a map."""

    template = "parts/map.html"
    name = "map"

    search: str
    view: MapView
    map: ArchiveMap
    provenance: str
    caption: str

    @property
    def pieces(self) -> tuple[Tile, ...]:
        """Tiles of the map."""
        return self.map.tiles


@dataclass(frozen=True)
class EmitterRow:
    """Results of one emitter's proposals.

    `share` is its part of all proposals so far. `following` is its part of the coming ones; None if it has ended.
    `suspended` are its suspended strategies, with reasons.
    """

    name: str
    hue: int
    proposals: int
    judged: int
    correct: int
    promotions: int
    share: float
    following: float | None
    suspended: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class EmitterTable(Fragment):
    """Emitters of the search with their results."""

    template = "parts/emitters.html"
    name = "emitters"

    rows: tuple[EmitterRow, ...]
    device: str
    screened: ScreeningReport | None = None
    dropped: int = 0


@dataclass(frozen=True)
class OutcomeTable(Fragment):
    """Outcomes of candidates as numbers and shares."""

    template = "parts/outcomes.html"
    name = "outcomes"

    search: str
    outcomes: tuple[tuple[str, int, float], ...]


@dataclass(frozen=True)
class RecentCandidates(Fragment):
    """The latest candidates with their figures on the chosen device."""

    template = "parts/recent.html"
    name = "recent"

    search: str
    device: str
    provenance: str
    candidates: tuple[CandidateRow, ...]


@dataclass(frozen=True)
class GuidancePanel(Fragment):
    """Pins and hints that people gave the search. `open` while it accepts more."""

    template = "parts/guidance.html"
    name = "guidance"

    search: str
    device: str
    pins: tuple[PinRecord, ...]
    hints: tuple[HintRecord, ...]
    open: bool


@dataclass(frozen=True)
class SpendingPanel(Fragment):
    """LLM calls of the search and their cost; empty if it uses no LLM."""

    template = "parts/spending.html"
    name = "spending"

    asks: bool
    budgets: tuple[BudgetRecord, ...]
    strategies: tuple[StrategyStatsRecord, ...]

    @property
    def calls(self) -> int:
        """Number of calls by all backends and strategies."""
        return sum(arm.calls for arm in self.strategies)


@dataclass(frozen=True)
class SearchPage(HtmlPage):
    """A search with its live parts."""

    template = "search.html"
    section = "/"
    live = True

    search: SearchRecord
    view: MapView
    parts: Mapping[str, Fragment]

    @property
    def title(self) -> str:
        """Operator and short id of the search."""
        return f"{self.search.operator_name} {brief(self.search.id)}"

    @property
    def stream(self) -> str:
        """Address of the live updates."""
        return f"/searches/{self.search.id}/live{self.view.address()}"


async def load_search(running: Coordinator, search: SearchRecord, view: MapView) -> SearchPage:
    """Load the page with its present parts."""
    return SearchPage(search, view, {part.name: part for part in await load_parts(running, search, view)})


async def load_parts(running: Coordinator, search: SearchRecord, view: MapView) -> tuple[Fragment, ...]:
    """Load the live parts of a search's page."""
    views, cells = running.store.views, Grid(search.axes).cells
    counts, missing_workers, activity = await asyncio.gather(
        running.store.candidates.count(search.id), running.describe_missing(search), running.describe_activity(search)
    )
    places, best, milestones, recent, provisional = await asyncio.gather(
        load_cells(running.store, search, view),
        views.top_elites(search.id, view.device, search.axes_version, limit=1),
        views.milestones(search.id, view.device, spacing=spacing_for(counts.evaluated, POINTS)),
        running.store.listings.candidates(search.id, limit=RECENT),
        running.store.provisional.list(search.id, view.device, search.axes_version),
    )
    found = await asyncio.gather(
        *(running.store.elites.progress(search.id, device, cells) for device in search.devices)
    )
    progress = dict(zip(search.devices, found, strict=True))
    pins, hints = await asyncio.gather(running.store.pins.list(search.id), running.store.hints.list(search.id))
    spending = await _spending(running.store, search)
    bill = next(iter(spending.budgets), None)
    spent = bill.usd if bill and bill.unpriced < max(bill.calls, 1) else None
    here, now = progress[view.device], datetime.now(UTC)
    drawn = draw(search, view, places, now, pins=[pin for pin in pins if pin.device == view.device])
    said, leader = provenance(view.device), next(iter(best), None)
    found_out = await examination(running.store, leader.candidate, leader.variant, view.device) if leader else None
    return (
        _status(search, view, counts, (leader, stamp_of(found_out)), progress, (missing_workers, activity)),
        SearchControls(
            search=search.id,
            actions=actions_in(search.state),
            ended=search.state in ENDED,
            failed=search.state is SearchState.FAILED,
            refused=search.reason.startswith(NOT_ADMITTED),
            more=2 * search.evaluations if search.state is SearchState.DONE else None,
        ),
        UseIt(search, view.device, said, leader, stamp_of(found_out), search.state in ENDED),
        MapPart(
            search=search.id,
            view=view,
            map=mark_provisional(drawn, search, view, provisional),
            provenance=said,
            caption=in_words(view.device, relative_to(view.device, search)),
        ),
        draw_charts(search, view, milestones, here, spent),
        _emitters(search, view.device, here, await read_stats(running.store, search)),
        OutcomeTable(search.id, _shares(here)),
        RecentCandidates(search.id, view.device, said, recent.items),
        GuidancePanel(search.id, view.device, tuple(pins), tuple(hints), bool(actions_in(search.state))),
        spending,
    )


async def _spending(store: Store, search: SearchRecord) -> SpendingPanel:
    """Read LLM calls and costs, if the search may use LLM backends."""
    if search.llm is None:
        return SpendingPanel(False, (), ())
    budgets, strategies = await asyncio.gather(
        store.spending.of_search(search.id), store.exchanges.llm_stats(search.id)
    )
    return SpendingPanel(True, tuple(budgets), tuple(strategies))


def actions_in(state: SearchState) -> tuple[tuple[str, str], ...]:
    """List the actions that a state allows, each with the text of its button."""
    if state in (SearchState.PREPARING, SearchState.RUNNING):
        return (("pause", "Pause"), ("stop", "Stop for good"))
    if state is SearchState.PAUSED:
        return (("resume", "Resume"), ("stop", "Stop for good"))
    return ()


def _status(
    search: SearchRecord,
    view: MapView,
    counts: SearchCounts,
    best: tuple[EliteSummary | None, FinalistResult],
    progress: Mapping[str, ProgressRecord],
    doing: tuple[Sequence[str], str],
) -> SearchStatus:
    """Build the state of a search.

    Args:
        search: The search.
        view: View with the device.
        counts: Its candidates and times.
        best: Best elite on the device, and the result of its examination.
        progress: Progress on each device.
        doing: Missing workers, and what it does now.
    """
    missing_workers, activity = doing
    sheet = TARGETS.get(Device.parse(view.device).target)
    tabs = tuple(
        DeviceTab(
            device=device,
            provenance=provenance(device),
            best=found.best,
            coverage=found.coverage,
            address=view.address(device=device),
            chosen=device == view.device,
        )
        for device, found in progress.items()
    )
    return SearchStatus(
        search=search,
        counts=counts,
        best=best[0],
        finalist=best[1],
        progress=progress[view.device],
        provenance=provenance(view.device),
        relative_to=relative_to(view.device, search),
        missing_workers=tuple(missing_workers),
        tabs=tabs,
        activity=activity,
        elapsed_s=elapsed_s(search),
        left_s=seconds_left(search, counts),
        impossible=count_impossible(search.axes, sheet) if sheet else 0,
    )


def _emitters(search: SearchRecord, device: str, progress: ProgressRecord, stats: EmitterStats) -> EmitterTable:
    coming = {item.emitter: item for item in emitter_shares(stats)}
    total = sum(counts.get("proposals", 0) for counts in progress.emitters.values())
    order = ["seed", *(name for name in search.emitters if name != "seed")]
    known = [name for name in order if name in progress.emitters]
    rest = [name for name in progress.emitters if name not in order]
    rows = tuple(
        EmitterRow(
            name=name,
            hue=order.index(name) if name in order else len(order),
            proposals=counts.get("proposals", 0),
            judged=counts.get("judged", 0),
            correct=counts.get("correct", 0),
            promotions=counts.get("promotions", 0),
            share=counts.get("proposals", 0) / total if total else 0.0,
            following=coming[name].share if name in coming else None,
            suspended=tuple(coming[name].suspended.items()) if name in coming else (),
        )
        for name in (*known, *rest)
        for counts in (progress.emitters[name],)
    )
    screened = screening_report(search, stats) if selection_of(search).screening else None
    return EmitterTable(rows, device, screened, dropped(progress.emitters))


def _shares(progress: ProgressRecord) -> tuple[tuple[str, int, float], ...]:
    """List the outcomes with their number and share, the most frequent first."""
    total = max(progress.evaluated, 1)
    return tuple((outcome, times, times / total) for outcome, times in progress.outcomes.items())
