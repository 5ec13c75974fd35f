"""Progress charts of a search: best speedup, coverage and QD score over evaluations, time or dollars."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from archive.records import Milestone, ProgressRecord, SearchRecord, SearchState
from service.dashboard import formatting
from service.dashboard.charts import ProgressLine, course
from service.dashboard.maps import ALONG, Along, MapView
from service.dashboard.rendering import Fragment
from service.evaluation.figure_labels import provenance

ENDED = (SearchState.DONE, SearchState.STOPPED, SearchState.FAILED)


@dataclass(frozen=True)
class ProgressCharts(Fragment):
    """Progress charts of a search on one device; `choices` are the possible horizontal axes."""

    template = "parts/courses.html"
    name = "courses"

    courses: tuple[ProgressLine, ...]
    view: MapView
    provenance: str
    choices: tuple[Along, ...]


def draw_courses(
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
    present = Milestone(now.evaluations, now.elites, now.qd_score, now.best, usd, _until(search))
    points = [*(each for each in milestones if each.evaluations < present.evaluations), present]
    places = [_place(search, view.along, each) for each in points]
    along: Callable[[float], str] = {
        "evaluations": formatting.evaluations, "time": formatting.duration_s, "dollars": formatting.usd
    }[view.along]  # fmt: skip
    best = [(place, each.best) for place, each in zip(places, points, strict=True) if each.best is not None]
    drawn = (
        course("Best speedup", best, lambda value: formatting.speedup(value, said), along, bottom=min(best[0][1], 1.0)),
        course(
            "Coverage",
            [(place, each.elites / now.cells) for place, each in zip(places, points, strict=True)],
            formatting.share,
            along,
            now=f"{formatting.share(now.coverage)} · {formatting.count(now.elites)} of {formatting.count(now.cells)} "
            "cells",
        ),
        course(
            "QD score",
            [(place, each.qd_score) for place, each in zip(places, points, strict=True)],
            lambda value: f"{formatting.MARKS[said]}{formatting.decimal(value)}",
            along,
        ),
    )
    return ProgressCharts(drawn, view, said, choices)


def _until(search: SearchRecord) -> datetime:
    return search.updated_at if search.state in ENDED else datetime.now(UTC)


def _place(search: SearchRecord, along: Along, milestone: Milestone) -> float:
    """Return the position of a milestone on the horizontal axis."""
    if along == "time":
        return max((milestone.reached_at - search.created_at).total_seconds(), 0.0)
    return float(milestone.evaluations) if along == "evaluations" else milestone.usd or 0.0
