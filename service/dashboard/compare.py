"""Two searches, or two devices of one, side by side."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request, Response

from archive.grid import Grid
from archive.records import EliteSummary, ProgressRecord, SearchRecord
from kernelreef.short_ids import brief
from service.api.dependencies import Running, needs
from service.api.paging import ID
from service.coordinator import Coordinator
from service.dashboard.maps import ArchiveMap, MapView, draw, load_cells
from service.dashboard.rendering import HtmlPage, respond
from service.dashboard.routing import Framed, pages
from service.errors import InvalidInput
from service.evaluation.figure_labels import provenance, relative_to
from service.security.scopes import Scope

router = pages()

OFFERED = 100
"""Number of recent searches to choose from."""
SIDES = ("left", "right")


@dataclass(frozen=True)
class ComparedSearch:
    """One side of the comparison: a search on one device."""

    search: SearchRecord
    view: MapView
    map: ArchiveMap
    progress: ProgressRecord
    best: EliteSummary | None
    provenance: str
    relative_to: str


@dataclass(frozen=True)
class ComparePage(HtmlPage):
    """Both sides, or the form to choose them.

    `doubts` are the reasons why their figures are not comparable; `shared` counts the cells filled on both sides.
    """

    template = "compare.html"
    section = "/compare"
    heading = "Compare"

    choices: tuple[tuple[str, str], ...]
    chosen: Mapping[str, str]
    sides: tuple[ComparedSearch, ...]
    doubts: tuple[str, ...]
    shared: int = 0


@router.get("/compare", dependencies=[needs(Scope.READ)])
async def show(running: Running, frame: Framed, request: Request) -> Response:
    """Compare two searches or devices; `left` and `right` are written `search@device`."""
    chosen = {side: request.query_params.get(side, "") for side in SIDES}
    recent = await running.store.searches.list(limit=OFFERED)
    choices = tuple(
        (f"{search.id}@{device}", f"{search.operator_name} {brief(search.id)} on {device}")
        for search in recent
        for device in search.devices
    )
    if not all(chosen.values()):
        return respond(ComparePage(choices, chosen, (), ()), frame)
    left, right = await _both(running, chosen, request)
    shared = await running.store.views.shared(_grid(left), _grid(right))
    return respond(ComparePage(choices, chosen, (left, right), _doubts(left, right), shared), frame)


async def _both(
    running: Coordinator, chosen: Mapping[str, str], request: Request
) -> tuple[ComparedSearch, ComparedSearch]:
    """Load both sides, with one colour scale for both maps."""
    views = [await _view(running, chosen[side], side, request) for side in SIDES]
    left, right = await asyncio.gather(*(load_cells(running.store, search, view) for search, view in views))
    now = datetime.now(UTC)
    maps = [
        draw(search, view, mine, now, beside=others, name=name)
        for (search, view), mine, others, name in zip(views, (left, right), (right, left), SIDES, strict=True)
    ]
    sides = [await _side(running, *seen, drawn) for seen, drawn in zip(views, maps, strict=True)]
    return sides[0], sides[1]


def _grid(side: ComparedSearch) -> tuple[str, str, int]:
    return side.search.id, side.view.device, side.search.axes_version


async def _view(running: Coordinator, chosen: str, field: str, request: Request) -> tuple[SearchRecord, MapView]:
    id, _, device = chosen.partition("@")
    if not ID.fullmatch(id):
        raise InvalidInput("write a search id, '@' and one of the search's devices", field)
    search = await running.store.searches.get(id)
    names = [axis.descriptor for axis in search.axes]
    asked = {name: request.query_params.get(name, "") for name in ("x", "y")}
    return search, MapView.of(
        search, {"device": device, **{name: axis for name, axis in asked.items() if axis in names}}
    )


async def _side(running: Coordinator, search: SearchRecord, view: MapView, drawn: ArchiveMap) -> ComparedSearch:
    best = await running.store.views.top_elites(search.id, view.device, search.axes_version, limit=1)
    return ComparedSearch(
        search=search,
        view=view,
        map=drawn,
        progress=await running.store.elites.progress(search.id, view.device, Grid(search.axes).cells),
        best=next(iter(best), None),
        provenance=provenance(view.device),
        relative_to=relative_to(view.device, search),
    )


def _doubts(left: ComparedSearch, right: ComparedSearch) -> tuple[str, ...]:
    """List the reasons why the figures of two sides are not comparable."""
    doubts = [
        f"The {name} search was admitted against mutation testing, so its kernels may be wrong."
        for name, side in zip(SIDES, (left, right), strict=True)
        if side.search.admitted
    ]
    if left.search.operator != right.search.operator:
        doubts.append("The operators differ, so the speedups are relative to different baselines.")
    if left.provenance != right.provenance:
        doubts.append(f"{left.provenance.title()} and {right.provenance} figures are not comparable.")
    elif left.view.device != right.view.device:
        doubts.append("The devices differ: each speedup is relative to a baseline on its own device.")
    if (left.search.axes, left.search.axes_version) != (right.search.axes, right.search.axes_version):
        doubts.append("The axes differ, so coverage and QD score count different cells.")
    return tuple(doubts)
