"""Charts as geometry, and the progress charts of a search. Templates draw them as SVG and add the figures as text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archive.records import Milestone, ProgressRecord, SearchRecord
from service.dashboard import formatting
from service.dashboard.maps import ALONG, Along, MapView
from service.dashboard.rendering import Fragment
from service.evaluation.activity import run_until
from service.evaluation.figure_labels import provenance

WIDTH = 300.0
HEIGHT = 100.0
"""Size of a chart's coordinate system; the page stretches the drawing."""
ROOM = 1.08
"""Ratio of the vertical axis to the largest value, so that the line keeps off the edge."""


@dataclass(frozen=True)
class ProgressLine:
    """Progress of a figure as a step line: a figure keeps its value until it changes.

    Attributes:
        title: Name of the figure.
        now: Present value as text.
        line: SVG path of the line, empty while there is nothing to draw.
        area: SVG path of the area below the line.
        top: Upper end of the vertical axis as text.
        bottom: Lower end of the vertical axis as text.
        start: Left end of the horizontal axis as text.
        end: Right end of the horizontal axis as text.
        summary: The whole chart in a sentence.
        values: Value at each point of the line as text, for the one under the pointer.
        positions: Horizontal position of each point as text.
    """

    title: str
    now: str
    line: str
    area: str
    top: str
    bottom: str
    start: str
    end: str
    summary: str
    values: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()


def progress_line(
    title: str,
    points: Sequence[tuple[float, float]],
    say: Callable[[float], str],
    along: Callable[[float], str],
    *,
    bottom: float = 0.0,
    now: str | None = None,
) -> ProgressLine:
    """Draw the progress of a figure.

    Args:
        title: Name of the figure.
        points: Horizontal position and value, in order; the last is the present.
        say: Formats a value.
        along: Formats a horizontal position.
        bottom: Lower end of the vertical axis.
        now: Present value as text, if it needs more than `say` gives.
    """
    if not points:
        return ProgressLine(title, now or formatting.UNKNOWN, "", "", "", "", "", "", f"{title}: nothing yet")
    last_x, last = points[-1]
    if all(value == bottom for _, value in points):
        bottom = 0.0  # A line along the edge would be invisible.
    top = max(bottom + (max(value for _, value in points) - bottom) * ROOM, bottom + 1e-9)
    placed = [(_scaled(x, points[0][0], last_x) * WIDTH, HEIGHT * (1 - _scaled(y, bottom, top))) for x, y in points]
    line = f"M{placed[0][0]:.1f} {placed[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in placed[1:])
    if placed[-1][0] == 0:
        line += f"H{WIDTH:.0f}"
    summary = f"{title}: from {say(points[0][1])} to {say(last)}, between {along(points[0][0])} and {along(last_x)}"
    return ProgressLine(
        title=title,
        now=now or say(last),
        line=line,
        area=f"{line}V{HEIGHT:.0f}H0Z",
        top=say(top / ROOM if bottom == 0 else top),
        bottom=say(bottom),
        start=along(points[0][0]),
        end=along(last_x),
        summary=summary,
        values=tuple(say(value) for _, value in points),
        positions=tuple(along(x) for x, _ in points),
    )


@dataclass(frozen=True)
class TimeBar:
    """One row of a comparison of times, in percent of the longest time.

    Attributes:
        label: Name of the kernel or floor.
        kind: `own`, `pacer`, `baseline`, `incumbent` or `floor`; selects the style.
        value: The time as text.
        middle: Position of the middle time.
        low: Start of the interval.
        span: Length of the interval.
    """

    label: str
    kind: str
    value: str
    middle: float
    low: float
    span: float


def bar(label: str, kind: str, value: str, times_us: tuple[float, float, float], longest_us: float) -> TimeBar:
    """Scale a time and its interval to a bar.

    Args:
        label: Name of the kernel or floor.
        kind: Style of the bar, as in `TimeBar`.
        value: The time as text.
        times_us: Lower bound, middle and upper bound, microseconds.
        longest_us: Time that the full width stands for.
    """
    low, middle, high = (100 * _scaled(time, 0.0, longest_us) for time in times_us)
    return TimeBar(label, kind, value, round(middle, 2), round(low, 2), round(max(high - low, 0.0), 2))


def spacing_for(evaluations: int, points: int) -> int:
    """Return the evaluations between two points of a chart with about this many points.

    It is a power of two, like the spacing of milestones.
    """
    return 1 << max(0, (evaluations // points).bit_length() - 1)


def _scaled(value: float, low: float, high: float) -> float:
    """Scale a value between two ends to 0 to 1."""
    return 0.0 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)


@dataclass(frozen=True)
class ProgressCharts(Fragment):
    """Progress charts of a search on one device; `choices` are the possible horizontal axes."""

    template = "parts/charts.html"
    name = "charts"

    charts: tuple[ProgressLine, ...]
    view: MapView
    provenance: str
    choices: tuple[Along, ...]


def draw_charts(
    search: SearchRecord, view: MapView, milestones: Sequence[Milestone], now: ProgressRecord, usd: float | None
) -> ProgressCharts:
    """Draw the progress of a search up to now.

    Args:
        search: The search.
        view: View with the device and the horizontal axis.
        milestones: Earlier progress on that device, oldest first.
        now: Present progress on that device; the last point of each chart.
        usd: Cost of its LLM calls so far; None if it uses no LLM.
    """
    choices = tuple(each for each in ALONG.values() if each != "dollars" or usd is not None)
    said = provenance(view.device)
    if now.best is None or view.along not in choices:
        return ProgressCharts((), view, said, choices)
    present = Milestone(now.evaluated, now.elites, now.qd_score, now.best, usd, run_until(search))
    points = [*(each for each in milestones if each.evaluations < present.evaluations), present]
    places = [_place(search, view.along, each) for each in points]
    along: Callable[[float], str] = {
        "evaluations": formatting.evaluations, "time": formatting.duration_s, "dollars": formatting.usd
    }[view.along]  # fmt: skip
    best = [(place, each.best) for place, each in zip(places, points, strict=True) if each.best is not None]
    drawn = (
        progress_line(
            "Best speedup", best, lambda value: formatting.speedup(value, said), along, bottom=min(best[0][1], 1.0)
        ),
        progress_line(
            "Coverage",
            [(place, each.elites / now.cells) for place, each in zip(places, points, strict=True)],
            formatting.share,
            along,
            now=f"{formatting.share(now.coverage)} · {formatting.count(now.elites)} of {formatting.count(now.cells)} "
            "cells",
        ),
        progress_line(
            "QD score",
            [(place, each.qd_score) for place, each in zip(places, points, strict=True)],
            lambda value: f"{formatting.MARKS[said]}{formatting.decimal(value)}",
            along,
        ),
    )
    return ProgressCharts(drawn, view, said, choices)


def _place(search: SearchRecord, along: Along, milestone: Milestone) -> float:
    """Return the position of a milestone on the horizontal axis."""
    if along == "time":
        return max((milestone.reached_at - search.created_at).total_seconds(), 0.0)
    return float(milestone.evaluations) if along == "evaluations" else milestone.usd or 0.0
