"""The ancestry of a search: its best elites and their ancestors as one tree, from the seed kernels to the right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request, Response

from archive.records import Relative, SearchRecord
from archive.store import Store
from kernelreef.short_ids import brief
from service.api.dependencies import Named, Running, needs
from service.dashboard.lineages import BOX_X, BOX_Y, STEP_X, STEP_Y, LineageDrawing, LineageNode, connect
from service.dashboard.maps import MapView
from service.dashboard.rendering import HtmlPage, respond
from service.dashboard.routing import Framed, pages
from service.security.scopes import Scope

router = pages()

ELITES = 40
"""Maximum number of elites drawn with their ancestors."""
GENERATIONS = 64
"""Maximum number of generations read."""


@dataclass(frozen=True)
class AncestryPage(HtmlPage):
    """The tree. `elites` holds the cell of each drawn elite by its candidate."""

    template = "ancestry.html"
    section = "/"

    search: SearchRecord
    view: MapView
    drawing: LineageDrawing
    elites: Mapping[str, int]
    best: str

    @property
    def title(self) -> str:
        """Name of the search."""
        return f"Ancestry of {self.search.operator_name} {brief(self.search.id)}"


@router.get("/searches/{id}/ancestry", dependencies=[needs(Scope.READ)])
async def show(search: Named, running: Running, frame: Framed, request: Request) -> Response:
    """Show the best elites of a search with all their ancestors."""
    return respond(await load_ancestry(running.store, search, MapView.of(search, request.query_params)), frame)


async def load_ancestry(store: Store, search: SearchRecord, view: MapView) -> AncestryPage:
    """Read the best elites and their ancestors."""
    elites = await store.views.top_elites(search.id, view.device, search.axes_version, limit=ELITES)
    cells = {elite.candidate: elite.cell for elite in reversed(elites)}
    kin = await store.views.lineage(cells, GENERATIONS) if cells else []
    return AncestryPage(search, view, lay_out_tree(kin), cells, elites[0].candidate if elites else "")


def lay_out_tree(kin: Sequence[Relative]) -> LineageDrawing:
    """Lay out candidates as a tree: each one column right of its first parent, and no two in one place.

    A first child stands in its parent's row, and each further child in a row below. Lines lead from every parent.
    """
    known = {each.id: each for each in kin}
    children: dict[str | None, list[Relative]] = {}
    for each in sorted(kin, key=lambda each: each.ordinal):
        first = each.parents[0] if each.parents and each.parents[0] in known else None
        children.setdefault(first, []).append(each)
    nodes: dict[str, LineageNode] = {}
    rows = 0
    waiting = [(root, 0, True) for root in reversed(children.get(None, []))]
    while waiting:
        each, column, begins_row = waiting.pop()
        rows += begins_row
        nodes[each.id] = LineageNode(each, brief(each.id), column * STEP_X + 1, (rows - 1) * STEP_Y + 1)
        below = children.get(each.id, [])
        waiting += [(child, column + 1, child is not below[0]) for child in reversed(below)]
    lines = [
        connect(nodes[parent], nodes[each.id])
        for each in kin
        if each.id in nodes
        for parent in each.parents
        if parent in nodes
    ]
    return LineageDrawing(
        nodes=tuple(nodes.values()),
        lines=tuple(sorted(lines)),
        width=max((node.x for node in nodes.values()), default=0) + BOX_X + 1,
        height=max(rows - 1, 0) * STEP_Y + BOX_Y + 2,
        cut=any(parent not in nodes for each in kin for parent in each.parents),
    )
