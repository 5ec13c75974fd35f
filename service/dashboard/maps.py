"""The archive as a map over two of its axes: each square shows the best elite of all cells that fall on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import log, prod
from typing import Literal
from urllib.parse import urlencode

from archive.descriptors import DESCRIPTORS
from archive.records import SEED_EMITTER, Axis, Mark, Search
from service.dashboard.words import TIMES, speedup
from service.errors import BadInput

Colour = Literal["objective", "age", "emitter"]
Along = Literal["evaluations", "time"]
COLOURS: Mapping[str, Colour] = {"objective": "objective", "age": "age", "emitter": "emitter"}
"""What colours may mean."""
SHADES = 7
"""Steps of the sequential scale; more cannot be told apart in a legend."""
SLOWER = ((0.5, "under 0.5"), (0.9, "0.5 to 0.9"), (1.0, "0.9 to 1"))
"""Upper ends of what is slower than its baseline, and their names: greys, so that a map of losses is not colourful."""
AGES = ((60.0, "a minute"), (600.0, "10 minutes"), (3600.0, "an hour"), (6 * 3600.0, "6 hours"), (86400.0, "a day"))
"""Bounds of ages in seconds, and their names."""
HUES = 8
"""Colours of emitters; the ninth begins anew, and its name stands in the square all the same."""


@dataclass(frozen=True)
class View:
    """What of a search is looked at: part of the address, so that it can be sent to somebody.

    Attributes:
        device: Whose archive.
        x: Axis from left to right.
        y: Axis from bottom to top; the same as `x` where the grid has one axis only.
        slices: Bins of other axes that are looked at alone; of the rest the best counts.
        colour: What colours mean.
        along: What the horizontal axes of courses are.
    """

    device: str
    x: str
    y: str
    slices: tuple[tuple[str, int], ...] = ()
    colour: Colour = "objective"
    along: Along = "evaluations"

    @classmethod
    def of(cls, search: Search, query: Mapping[str, str]) -> "View":
        """Read an address.

        Raises:
            BadInput: If it names what the search does not have.
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
            along="time" if query.get("along") == "time" else "evaluations",
        )

    def address(self, *, device: str | None = None, along: Along | None = None) -> str:
        """The query that leads to this view, with some of it changed."""
        changed = replace(self, device=device or self.device, along=along or self.along)
        fields: dict[str, object] = {"device": changed.device, "x": changed.x, "y": changed.y, **dict(changed.slices)}
        if changed.colour != "objective":
            fields["colour"] = changed.colour
        if changed.along != "evaluations":
            fields["along"] = changed.along
        return "?" + urlencode(fields)


@dataclass(frozen=True)
class Square:
    """One place on the map; `mark` is the best elite there, None if no cell is filled. `held` of its cells are."""

    mark: Mark | None
    held: int
    where: str
    look: str


@dataclass(frozen=True)
class Row:
    """Squares from left to right, and the label of their bin."""

    label: str
    squares: tuple[Square, ...]


@dataclass(frozen=True)
class Choice:
    """An axis that is not drawn: its bins, and which is looked at alone (None for the best of all)."""

    name: str
    labels: tuple[str, ...]
    chosen: int | None


@dataclass(frozen=True)
class Map:
    """Rows from top to bottom with what explains them. `depth` is the number of cells that fall on each square."""

    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]
    choices: tuple[Choice, ...]
    depth: int
    held: int


def draw(search: Search, view: View, marks: Sequence[Mark], now: datetime, beside: Sequence[Mark] = ()) -> Map:
    """Draw the archive.

    Args:
        search: Whose.
        view: From where.
        marks: Its elites on the device that is looked at, the best first.
        now: What ages are counted to, UTC.
        beside: Elites of another map that has to have the same scale of colours.
    """
    axes = {axis.descriptor: axis for axis in search.axes}
    shown = _project(search.axes, view, marks)
    best = [found[0].objective for found in shown.values()]
    looks = _Looks(view.colour, search, [*best, *(mark.objective for mark in beside)], now)
    width, height = axes[view.x].bins, (axes[view.y].bins if view.y != view.x else 1)
    rows = []
    for y in reversed(range(height)):
        squares = []
        for x in range(width):
            found = shown.get((x, y), [])
            where = _where(view, x, y)
            look = looks.of(found[0]) if found else "empty"
            squares.append(Square(found[0] if found else None, len(found), where, look))
        rows.append(Row(_label(view.y, y) if height > 1 else "", tuple(squares)))
    sliced = dict(view.slices)
    free = [axis for axis in search.axes if axis.descriptor not in (view.x, view.y)]
    return Map(
        rows=tuple(rows),
        columns=tuple(_label(view.x, x) for x in range(width)),
        legend=looks.legend(),
        choices=tuple(
            Choice(axis.descriptor, DESCRIPTORS[axis.descriptor].labels, sliced.get(axis.descriptor)) for axis in free
        ),
        depth=prod(axis.bins for axis in free if axis.descriptor not in sliced),
        held=sum(map(len, shown.values())),
    )


def _project(axes: Sequence[Axis], view: View, marks: Sequence[Mark]) -> dict[tuple[int, int], list[Mark]]:
    """Elites by where they fall, each list the best first; those outside of the slices are left out."""
    strides = {axis.descriptor: prod(other.bins for other in axes[at + 1 :]) for at, axis in enumerate(axes)}
    bins = {axis.descriptor: axis.bins for axis in axes}
    sliced = [(strides[name], bins[name], chosen) for name, chosen in view.slices]
    (step_x, bins_x), (step_y, bins_y) = ((strides[name], bins[name]) for name in (view.x, view.y))
    flat = view.x == view.y
    places: dict[tuple[int, int], list[Mark]] = {}
    for mark in marks:
        cell = mark.cell
        if all(cell // step % size == chosen for step, size, chosen in sliced):
            place = (cell // step_x % bins_x, 0 if flat else cell // step_y % bins_y)
            places.setdefault(place, []).append(mark)
    return places


class _Looks:
    """Which class of the style sheet a square gets, and the legend to it."""

    def __init__(self, colour: Colour, search: Search, objectives: Sequence[float], now: datetime) -> None:
        self._colour = colour
        self._now = now
        self._emitters = [SEED_EMITTER, *(name for name in search.emitters if name != SEED_EMITTER)]
        faster = [objective for objective in objectives if objective >= 1.0]
        self._least = min(faster, default=1.0)
        self._most = max(faster, default=1.0)
        self._slower = len(faster) < len(objectives)
        self._faster = bool(faster)

    def of(self, mark: Mark) -> str:
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
        shades = [(f"shade-{at + 1}", speedup(value)) for at, value in enumerate(steps)]
        shades = shades if self._most > self._least else shades[-1:]
        slower = [(f"slower-{at + 1}", f"{name}{TIMES}") for at, (_, name) in enumerate(SLOWER)]
        return (*(slower if self._slower else ()), *(shades if self._faster else ()))


def _where(view: View, x: int, y: int) -> str:
    here = f"{view.x.replace('_', ' ')} {_label(view.x, x)}"
    return here if view.x == view.y else f"{here}, {view.y.replace('_', ' ')} {_label(view.y, y)}"


def _label(axis: str, bin_: int) -> str:
    return DESCRIPTORS[axis].labels[bin_]


def _one_of(value: str, allowed: Sequence[str], field: str) -> str:
    if value not in allowed:
        raise BadInput(f"'{value}' is not one of: {', '.join(allowed)}", field)
    return value


def _bin(text: str, axis: Axis) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and int(text) < axis.bins):
        raise BadInput(f"'{text}' is no bin; {axis.descriptor} has bins 0 to {axis.bins - 1}", axis.descriptor)
    return int(text)
