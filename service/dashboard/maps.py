"""The archive as a map over two of its axes: each tile shows the best elite of all cells that it covers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import log, prod
from typing import Literal
from urllib.parse import urlencode

from archive.descriptors import DESCRIPTORS
from archive.records import (
    SEED_EMITTER,
    AxisRecord,
    AxisStride,
    EliteSummary,
    MapCell,
    PinRecord,
    ProvisionalRecord,
    SearchRecord,
)
from archive.store import Store
from service.dashboard.feasibility import is_impossible
from service.dashboard.formatting import TIMES, speedup
from service.dashboard.rendering import Fragment
from service.errors import InvalidInput
from service.evaluation.figure_labels import outdated, provenance
from workers.protocol import Device
from workers.targets import TARGETS

Colour = Literal["objective", "age", "emitter"]
Along = Literal["evaluations", "time", "dollars"]
ALONG: Mapping[str, Along] = {"evaluations": "evaluations", "time": "time", "dollars": "dollars"}
"""Choices for the horizontal axis of progress charts."""
COLOURS: Mapping[str, Colour] = {"objective": "objective", "age": "age", "emitter": "emitter"}
"""Choices for the meaning of colours."""
SHADES = 7
"""Number of steps in the sequential scale; more cannot be told apart in a legend."""
SLOWER = ((0.5, "under 0.5"), (0.9, "0.5 to 0.9"), (1.0, "0.9 to 1"))
"""Upper bounds of speedups below 1, and their names. They are grey, so that a map of losses is not colourful."""
AGES = ((60.0, "a minute"), (600.0, "10 minutes"), (3600.0, "an hour"), (6 * 3600.0, "6 hours"), (86400.0, "a day"))
"""Bounds of ages in seconds, and their names."""
HUES = 8
"""Number of emitter colours; the ninth emitter repeats the first colour, and its name in the tile tells it apart."""


@dataclass(frozen=True)
class MapView:
    """View of a search, kept in the page's address so that it can be shared.

    Attributes:
        device: Device of the grid.
        x: Axis from left to right.
        y: Axis from bottom to top; the same as `x` if the grid has only one axis.
        slices: Fixed bins of other axes; the best elite over all bins counts on the rest.
        colour: Meaning of the colours.
        along: Horizontal axis of the progress charts.
    """

    device: str
    x: str
    y: str
    slices: tuple[tuple[str, int], ...] = ()
    colour: Colour = "objective"
    along: Along = "evaluations"

    @classmethod
    def of(cls, search: SearchRecord, query: Mapping[str, str]) -> "MapView":
        """Read a view from an address.

        Raises:
            InvalidInput: If it names a device, axis or bin that the search does not have.
        """
        names = [axis.descriptor for axis in search.axes]
        x = _one_of(query.get("x") or names[0], names, "x")
        others = [name for name in names if name != x]
        y = _one_of(query.get("y") or (others[0] if others else x), names, "y")
        y = others[0] if y == x and others else y
        slices = tuple(
            (axis.descriptor, _bin(query[axis.descriptor], axis))
            for axis in search.axes
            if axis.descriptor not in (x, y) and query.get(axis.descriptor)
        )
        return cls(
            device=_one_of(query.get("device") or search.devices[0], search.devices, "device"),
            x=x,
            y=y,
            slices=slices,
            colour=COLOURS[_one_of(query.get("colour") or "objective", tuple(COLOURS), "colour")],
            along=ALONG[_one_of(query.get("along") or "evaluations", tuple(ALONG), "along")],
        )

    def address(self, *, device: str | None = None, along: Along | None = None) -> str:
        """Return the query string of this view, optionally with another device or horizontal axis."""
        changed = replace(self, device=device or self.device, along=along or self.along)
        fields: dict[str, object] = {"device": changed.device, "x": changed.x, "y": changed.y, **dict(changed.slices)}
        if changed.colour != "objective":
            fields["colour"] = changed.colour
        if changed.along != "evaluations":
            fields["along"] = changed.along
        return "?" + urlencode(fields)


@dataclass(frozen=True)
class Tile(Fragment):
    """One tile of the map, sent alone if nothing else has changed.

    Attributes:
        name: Id of the HTML element.
        where: Bins of the tile as text.
        look: CSS class.
        mark: Best elite of the tile; None if no cell is filled.
        held: Number of filled cells.
        depth: Number of cells.
        provenance: Source of the figures: measured, predicted or recorded.
        by_emitter: True if the tile shows the emitter's name.
        pinned: True if a cell or candidate of the tile is pinned.
        waiting: Best provisional holder of the tile's cells; None without one.
    """

    template = "parts/tile.html"

    name: str
    where: str
    look: str
    mark: EliteSummary | None
    held: int
    depth: int
    provenance: str
    by_emitter: bool
    pinned: bool
    waiting: ProvisionalRecord | None = None

    @property
    def older(self) -> bool:
        """True if the elite rests on a report of an older protocol."""
        return self.mark is not None and outdated(self.mark.protocol_version)


@dataclass(frozen=True)
class MapRow:
    """Tiles from left to right, and the label of their bin."""

    label: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class AxisChoice:
    """An axis that is not drawn: its bins, and the fixed one (None for the best over all bins)."""

    name: str
    labels: tuple[str, ...]
    chosen: int | None


@dataclass(frozen=True)
class ArchiveMap:
    """Rows from top to bottom with labels and a legend. `depth` is the number of cells per tile."""

    rows: tuple[MapRow, ...]
    columns: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]
    choices: tuple[AxisChoice, ...]
    depth: int
    held: int
    pinned: bool

    @property
    def impossible(self) -> bool:
        """True if any tile cannot be filled."""
        return any(tile.look == "impossible" for tile in self.tiles)

    @property
    def provisional(self) -> bool:
        """True if any tile without an elite has a provisional holder."""
        return any(tile.look == "provisional" for tile in self.tiles)

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """All tiles."""
        return tuple(tile for row in self.rows for tile in row.tiles)

    @property
    def older(self) -> bool:
        """True if any tile's elite rests on a report of an older protocol."""
        return any(tile.older for tile in self.tiles)


async def load_cells(store: Store, search: SearchRecord, view: MapView) -> list[MapCell]:
    """Read the filled tiles of a view from the archive."""
    spans = _spans(search.axes)
    up = spans[view.y] if view.y != view.x else AxisStride(1, 1)
    grid = (search.id, view.device, search.axes_version)
    return await store.views.places(grid, spans[view.x], up, [(spans[name], chosen) for name, chosen in view.slices])


def draw(
    search: SearchRecord,
    view: MapView,
    places: Sequence[MapCell],
    now: datetime,
    *,
    pins: Collection[PinRecord] = (),
    beside: Sequence[MapCell] = (),
    name: str = "at",
) -> ArchiveMap:
    """Draw the archive.

    Args:
        search: The search.
        view: The view.
        places: Filled tiles of the view.
        now: Time that ages are counted to, UTC.
        pins: Pins on the view's device.
        beside: Filled tiles of another map that shares the colour scale.
        name: Prefix of the tiles' ids.
    """
    axes = {axis.descriptor: axis for axis in search.axes}
    shown = {(place.x, place.y): place for place in places}
    looks = _TileStyles(view, search, [place.mark.objective for place in (*places, *beside)], now)
    sliced = dict(view.slices)
    free = [axis for axis in search.axes if axis.descriptor not in (view.x, view.y)]
    depth = prod(axis.bins for axis in free if axis.descriptor not in sliced)
    candidates = {pin.candidate for pin in pins}
    tiles = _TileContext(name, view, looks, depth, _pinned(search.axes, view, pins), candidates)
    width, height = axes[view.x].bins, (axes[view.y].bins if view.y != view.x else 1)
    rows = tuple(
        MapRow(
            _label(view.y, y) if height > 1 else "", tuple(tiles.tile(x, y, shown.get((x, y))) for x in range(width))
        )
        for y in reversed(range(height))
    )
    return ArchiveMap(
        rows=rows,
        columns=tuple(_label(view.x, x) for x in range(width)),
        legend=looks.legend(),
        choices=tuple(
            AxisChoice(axis.descriptor, DESCRIPTORS[axis.descriptor].labels, sliced.get(axis.descriptor))
            for axis in free
        ),
        depth=depth,
        held=sum(place.held for place in places),
        pinned=any(each.pinned for row in rows for each in row.tiles),
    )


def mark_provisional(
    drawn: ArchiveMap, search: SearchRecord, view: MapView, provisional: Sequence[ProvisionalRecord]
) -> ArchiveMap:
    """Mark the tiles without an elite that have a provisional holder.

    Args:
        drawn: The map.
        search: The search.
        view: The view that the map was drawn for.
        provisional: Provisional holders on the view's device, the largest objective first.
    """
    best: dict[tuple[int, int] | None, ProvisionalRecord] = {}
    for holder in provisional:
        best.setdefault(_place(search.axes, view, holder.cell), holder)

    def marked(tile: Tile, place: tuple[int, int]) -> Tile:
        if tile.mark is not None or place not in best:
            return tile
        return replace(tile, look="provisional", waiting=best[place])

    height = len(drawn.rows)
    rows = tuple(
        replace(row, tiles=tuple(marked(tile, (x, height - 1 - down)) for x, tile in enumerate(row.tiles)))
        for down, row in enumerate(drawn.rows)
    )
    return replace(drawn, rows=rows)


@dataclass(frozen=True)
class _TileContext:
    """Data that all tiles of a map share; `places` and `candidates` are the pinned ones."""

    name: str
    view: MapView
    looks: "_TileStyles"
    depth: int
    places: Collection[tuple[int, int]]
    candidates: Collection[str | None]

    def tile(self, x: int, y: int, found: MapCell | None) -> Tile:
        """Make the tile of two bins."""
        mark = found.mark if found else None
        return Tile(
            name=f"{self.name}-{x}-{y}",
            where=_where(self.view, x, y),
            look=self.looks.of(mark) if mark else "impossible" if self._impossible(x, y) else "empty",
            mark=mark,
            held=found.held if found else 0,
            depth=self.depth,
            provenance=provenance(self.view.device),
            by_emitter=self.view.colour == "emitter",
            pinned=(x, y) in self.places or (mark is not None and mark.candidate in self.candidates),
        )

    def _impossible(self, x: int, y: int) -> bool:
        """Return True if no kernel can lie in a tile; False for devices without a sheet."""
        target = TARGETS.get(Device.parse(self.view.device).target)
        up = {} if self.view.y == self.view.x else {self.view.y: y}
        return target is not None and is_impossible({**dict(self.view.slices), self.view.x: x, **up}, target)


def _spans(axes: Sequence[AxisRecord]) -> dict[str, AxisStride]:
    """Return the stride of each axis in a cell's index: cells are numbered along the last axis first."""
    return {
        axis.descriptor: AxisStride(prod(other.bins for other in axes[at + 1 :]), axis.bins)
        for at, axis in enumerate(axes)
    }


def _pinned(axes: Sequence[AxisRecord], view: MapView, pins: Collection[PinRecord]) -> set[tuple[int, int]]:
    """Locate the tiles of pinned cells."""
    places = (_place(axes, view, pin.cell) for pin in pins if pin.cell is not None)
    return {place for place in places if place is not None}


def _place(axes: Sequence[AxisRecord], view: MapView, cell: int) -> tuple[int, int] | None:
    """Return the tile of a cell; None if the view's slices leave it out."""
    spans = _spans(axes)

    def bin_of(axis: str) -> int:
        return cell // spans[axis].stride % spans[axis].bins

    if any(bin_of(name) != chosen for name, chosen in view.slices):
        return None
    return bin_of(view.x), 0 if view.x == view.y else bin_of(view.y)


class _TileStyles:
    """CSS classes of the tiles, and the legend that explains them."""

    def __init__(self, view: MapView, search: SearchRecord, objectives: Sequence[float], now: datetime) -> None:
        self._colour = view.colour
        self._provenance = provenance(view.device)
        self._now = now
        self._emitters = [SEED_EMITTER, *(name for name in search.emitters if name != SEED_EMITTER)]
        faster = [objective for objective in objectives if objective >= 1.0]
        self._least = min(faster, default=1.0)
        self._most = max(faster, default=1.0)
        self._slower = len(faster) < len(objectives)
        self._faster = bool(faster)

    def of(self, mark: EliteSummary) -> str:
        if self._colour == "emitter":
            known = mark.emitter in self._emitters
            return f"hue-{self._emitters.index(mark.emitter) % HUES if known else HUES - 1}"
        if self._colour == "age":
            age = (self._now - mark.placed_at).total_seconds()
            return f"shade-{SHADES - sum(age >= bound for bound, _ in AGES)}"
        if mark.objective < 1.0:
            return f"slower-{1 + sum(mark.objective >= end for end, _ in SLOWER)}"
        return f"shade-{self._shade(mark.objective)}"

    def _shade(self, objective: float) -> int:
        if self._most <= self._least:
            return SHADES
        return 1 + round((SHADES - 1) * log(objective / self._least) / log(self._most / self._least))

    def legend(self) -> tuple[tuple[str, str], ...]:
        if self._colour == "emitter":
            return tuple((f"hue-{at % HUES}", name) for at, name in enumerate(self._emitters))
        if self._colour == "age":
            named = [(f"shade-{SHADES - at}", f"under {name}") for at, (_, name) in enumerate(AGES)]
            return (*named, (f"shade-{SHADES - len(AGES)}", "older"))
        steps = [self._least * (self._most / self._least) ** (at / (SHADES - 1)) for at in range(SHADES)]
        shades = [(f"shade-{at + 1}", speedup(value, self._provenance)) for at, value in enumerate(steps)]
        shades = shades if self._most > self._least else shades[-1:]
        slower = [(f"slower-{at + 1}", f"{name}{TIMES}") for at, (_, name) in enumerate(SLOWER)]
        return (*(slower if self._slower else ()), *(shades if self._faster else ()))


def _where(view: MapView, x: int, y: int) -> str:
    here = f"{view.x.replace('_', ' ')} {_label(view.x, x)}"
    return here if view.x == view.y else f"{here}, {view.y.replace('_', ' ')} {_label(view.y, y)}"


def _label(axis: str, bin_: int) -> str:
    return DESCRIPTORS[axis].labels[bin_]


def _one_of(value: str, allowed: Sequence[str], field: str) -> str:
    if value not in allowed:
        raise InvalidInput(f"'{value}' is not one of: {', '.join(allowed)}", field)
    return value


def _bin(text: str, axis: AxisRecord) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and int(text) < axis.bins):
        raise InvalidInput(f"'{text}' is not a bin: {axis.descriptor} has bins 0 to {axis.bins - 1}", axis.descriptor)
    return int(text)
