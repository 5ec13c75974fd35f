"""The log of a search: what happened in it as lines of words, newest first."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from fastapi import Response

from archive.records import CandidateRow, HintRecord, PinRecord, Placement, PlacementRecord, SearchRecord, SearchState
from archive.store import Store
from kernelreef.short_ids import brief
from kernelreef.states import ENDED
from service.api.dependencies import Named, Running, needs
from service.dashboard.formatting import speedup, title
from service.dashboard.rendering import HEADERS, Fragment, HtmlPage, render_fragment, respond
from service.dashboard.routing import Framed, pages
from service.evaluation.figure_labels import provenance
from service.security.scopes import Scope

router = pages()

SHOWN = 200
"""Maximum number of lines; of each kind of event, so many of the newest are read."""
PLACED = {
    Placement.NEW: "fills cell {cell} on {device} with {figure}.",
    Placement.IMPROVED: "takes cell {cell} on {device} from its elite, with {figure}.",
    Placement.WITHDRAWN: "loses cell {cell} on {device}, with {figure}: an examination found a fault.",
}
"""Words for offers that changed a cell; the others changed nothing."""


@dataclass(frozen=True)
class LogLine:
    """One event. `candidate` is the id of the candidate that it is about; empty if there is none."""

    at: datetime
    text: str
    candidate: str = ""
    is_bad: bool = False


@dataclass(frozen=True)
class SearchLog(Fragment):
    """The newest lines of a log. `cut` is True if there are older ones."""

    template = "parts/log.html"
    name = "log"

    lines: tuple[LogLine, ...]
    cut: bool


@dataclass(frozen=True)
class SearchLogPage(HtmlPage):
    """The log on a page of its own."""

    template = "log.html"
    section = "/"

    search: SearchRecord
    log: SearchLog

    @property
    def title(self) -> str:
        """Name of the search."""
        return f"Log of {self.search.operator_name} {brief(self.search.id)}"


@router.get("/searches/{id}/log", dependencies=[needs(Scope.READ)])
async def show(search: Named, running: Running, frame: Framed) -> Response:
    """Show the log of a search."""
    return respond(SearchLogPage(search, await load_log(running.store, search)), frame)


@router.get("/searches/{id}/log-lines", dependencies=[needs(Scope.READ)])
async def lines(search: Named, running: Running, frame: Framed) -> Response:
    """Return the log as a part of the search's page, which loads it when a person opens it."""
    part = await load_log(running.store, search)
    return Response(render_fragment(part, frame), media_type="text/html", headers=dict(HEADERS))


async def load_log(store: Store, search: SearchRecord) -> SearchLog:
    """Read the newest events of a search from the archive."""
    placed, candidates, pins, hints = await asyncio.gather(
        asyncio.gather(*(store.elites.history(search.id, device, limit=SHOWN) for device in search.devices)),
        store.listings.candidates(search.id, limit=SHOWN),
        store.pins.list(search.id),
        store.hints.list(search.id),
    )
    found = [
        *_of_search(search),
        *(line for offers in placed for line in _of_offers(offers)),
        *_of_candidates(candidates.items),
        *_of_people(pins, hints),
    ]
    found.sort(key=lambda line: line.at, reverse=True)
    return SearchLog(tuple(found[:SHOWN]), len(found) > SHOWN or candidates.after is not None)


def _of_search(search: SearchRecord) -> Iterator[LogLine]:
    yield LogLine(search.created_at, f"The search was submitted, for {search.evaluations:,} evaluations.")
    if search.state in ENDED or search.state is SearchState.PAUSED:
        reason = f": {search.reason}" if search.reason else "."
        text = f"The search is {search.state.value}{reason}"
        yield LogLine(search.ended_at or search.updated_at, text, is_bad=search.state is SearchState.FAILED)


def _of_offers(offers: Iterable[PlacementRecord]) -> Iterator[LogLine]:
    for offer in offers:
        if offer.placement in PLACED:
            figure = speedup(offer.objective, provenance(offer.device))
            what = PLACED[offer.placement].format(cell=offer.cell, device=offer.device, figure=figure)
            yield LogLine(
                offer.offered_at, f"by {offer.emitter} {what}", offer.candidate, offer.placement is Placement.WITHDRAWN
            )


def _of_candidates(candidates: Iterable[CandidateRow]) -> Iterator[LogLine]:
    for each in candidates:
        verdict = f"; its verdict: {title(each.outcome)}" if each.outcome else ""
        yield LogLine(each.created_at, f"is proposed by {each.emitter}{verdict}.", each.id)


def _of_people(pins: Iterable[PinRecord], hints: Iterable[HintRecord]) -> Iterator[LogLine]:
    for pin in pins:
        yield LogLine(pin.created_at, f"{pin.author or 'Somebody'} pinned {pin.candidate or f'cell {pin.cell}'}.")
    for hint in hints:
        yield LogLine(hint.created_at, f"{hint.author or 'Somebody'} added the hint: {hint.text}")
