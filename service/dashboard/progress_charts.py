"""How the figures of a search came about: best speedup, coverage and QD score, along evaluations, time or dollars."""

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
    """The courses of a search on one device; `choices` is what they may run along."""

    template = "parts/courses.html"
    name = "courses"

    courses: tuple[ProgressLine, ...]
    view: MapView
    provenance: str
    choices: tuple[Along, ...]


def draw_courses(
    search: SearchRecord, view: MapView, milestones: Sequence[Milestone], now: ProgressRecord, usd: float | None
) -> ProgressCharts:
    """Draw where a search came from to where it is.

    Args:
        search: Which.
        view: On which device, and along what.
        milestones: Where it stood there earlier, oldest first.
        now: Where it stands there; the last point of each course.
        usd: What models have cost it so far, None if it asks none.
    """
    choices = tuple(each for each in ALONG.values() if each != "dollars" or usd is not None)
    said = provenance(view.device)
    if now.best is None or view.along not in choices:
        return ProgressCharts((), view, said, choices)
    present = Milestone(now.evaluated, now.elites, now.qd_score, now.best, usd, _until(search))
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
            now=f"{formatting.share(now.coverage)} · {formatting.count(now.elites)} of {formatting.count(now.cells)} cells",
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
    """Where a milestone lies on the horizontal axis."""
    if along == "time":
        return max((milestone.reached_at - search.created_at).total_seconds(), 0.0)
    return float(milestone.evaluations) if along == "evaluations" else milestone.usd or 0.0
