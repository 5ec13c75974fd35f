"""Winners by shape: the fastest elite at each benchmark shape, and the gain of dispatching among them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response

from archive.records import EliteRecord, SearchRecord
from archive.store import Store
from kernelreef.short_ids import brief
from service.api.dependencies import Named, Running, needs
from service.dashboard.maps import MapView
from service.dashboard.rendering import HEADERS, Fragment, HtmlPage, render_fragment, respond
from service.dashboard.routing import Framed, pages
from service.evaluation.figure_labels import provenance, relative_to
from service.evaluation.reference_seed import ReferenceSeed
from service.evaluation.speedups import benchmark_weights, completed
from service.security.scopes import Scope
from workers.protocol import Report, ShapeResult

router = pages()

LOOKED_AT = 200
"""Number of best elites whose reports are read: a winner at one shape is seldom bad at all others."""


@dataclass(frozen=True)
class ShapeWinner:
    """The fastest elite at a shape; speedups are over the baseline at that shape."""

    shape: str
    weight: float
    elite: EliteRecord
    speedup: float
    best_elite: float


@dataclass(frozen=True)
class ShapeWinners(Fragment):
    """Winners by shape. `gain` is a dispatcher's speedup over the best elite alone; None without times."""

    template = "parts/winners.html"
    name = "winners"

    provenance: str
    relative_to: str
    winners: tuple[ShapeWinner, ...]
    best: EliteRecord | None
    gain: float | None
    looked_at: int


@dataclass(frozen=True)
class ShapesPage(HtmlPage):
    """Winners by shape, on a page of their own."""

    template = "shapes.html"
    section = "/"

    search: SearchRecord
    view: MapView
    winners: ShapeWinners

    @property
    def title(self) -> str:
        """Name of the search."""
        return f"Winners by shape of {self.search.operator_name} {brief(self.search.id)}"


@router.get("/searches/{id}/shapes", dependencies=[needs(Scope.READ)])
async def show(search: Named, running: Running, frame: Framed, request: Request) -> Response:
    """Show the fastest elite at each benchmark shape."""
    view = MapView.of(search, request.query_params)
    return respond(ShapesPage(search, view, await load_winners(running.store, search, view.device)), frame)


@router.get("/searches/{id}/winners", dependencies=[needs(Scope.READ)])
async def winners(search: Named, running: Running, frame: Framed, request: Request) -> Response:
    """Return the winners as a part of the search's page, which loads it when a person opens it."""
    part = await load_winners(running.store, search, MapView.of(search, request.query_params).device)
    return Response(render_fragment(part, frame), media_type="text/html", headers=dict(HEADERS))


async def load_winners(store: Store, search: SearchRecord, device: str) -> ShapeWinners:
    """Read the best elites' reports and find the fastest elite at each shape."""
    elites = await store.elites.top(search.id, device, search.axes_version, LOOKED_AT)
    documents = await store.views.documents([elite.job for elite in elites])
    seed_us = await ReferenceSeed(store).baseline_us(search, device) if provenance(device) != "measured" else {}
    speedups = {
        elite.cell: _speedups(completed(Report.model_validate_json(documents[elite.job]), search), seed_us)
        for elite in elites
        if elite.job in documents
    }
    known = [elite for elite in elites if elite.cell in speedups]
    weights = benchmark_weights(search)
    first = tuple(found for shape in weights if (found := _winner(shape, weights[shape], known, speedups)))
    return ShapeWinners(
        provenance=provenance(device),
        relative_to=relative_to(device, search),
        winners=first,
        best=known[0] if known else None,
        gain=_gain(first) if len(first) == len(weights) else None,
        looked_at=len(known),
    )


def _speedups(report: Report, seed_us: Mapping[str, float]) -> dict[str, float]:
    """Compute the speedup at each shape over its best baseline, or over the reference seed before or without any."""
    found = {}
    for result in report.shapes:
        base = _base(result, seed_us)
        if base is not None and result.mid_us:
            found[result.shape] = base / result.mid_us
    return found


def _base(result: ShapeResult, seed_us: Mapping[str, float]) -> float | None:
    return min(result.baselines_us.values()) if result.baselines_us else seed_us.get(result.shape, result.pacer_us)


def _winner(
    shape: str, weight: float, elites: Sequence[EliteRecord], speedups: Mapping[int, Mapping[str, float]]
) -> ShapeWinner | None:
    there = [elite for elite in elites if shape in speedups[elite.cell]]
    if not there:
        return None
    first = max(there, key=lambda elite: speedups[elite.cell][shape])
    alone = speedups[elites[0].cell].get(shape, 0.0)
    return ShapeWinner(shape, weight, first, speedups[first.cell][shape], alone)


def _gain(winners: Sequence[ShapeWinner]) -> float | None:
    """Compute the weighted geometric mean of the winners' speedups over the best elite's."""
    total = sum(winner.weight for winner in winners)
    if not total or any(winner.best_elite <= 0 for winner in winners):
        return None
    return math.exp(sum(each.weight * math.log(each.speedup / each.best_elite) for each in winners) / total)
