"""Charts as geometry. Templates draw them as SVG; what they say stands beside them in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.dashboard.formatting import UNKNOWN

WIDTH = 300.0
HEIGHT = 100.0
"""Size of a course's coordinate system; the drawing is stretched to its place."""
ROOM = 1.08
"""The vertical axis goes a little beyond the largest value, so that the line does not stick to the edge."""


@dataclass(frozen=True)
class ProgressLine:
    """How a figure came about: a line of steps, for a figure stays what it is until it changes.

    Attributes:
        title: What is shown.
        now: Its present value in words.
        line: SVG path of the line, empty while there is nothing to draw.
        area: SVG path of what lies below.
        top: Upper end of the vertical axis in words; the lower end is `bottom`.
        bottom: Lower end.
        start: Left end of the horizontal axis in words.
        end: Right end.
        summary: The whole in a sentence.
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


def course(
    title: str,
    points: Sequence[tuple[float, float]],
    say: Callable[[float], str],
    along: Callable[[float], str],
    *,
    bottom: float = 0.0,
    now: str | None = None,
) -> ProgressLine:
    """Draw a figure's course.

    Args:
        title: What it is.
        points: Horizontal place and value, in order; the last one is the present.
        say: A value in words.
        along: A horizontal place in words.
        bottom: Lower end of the vertical axis.
        now: The present value in words, where `say` would say too little.
    """
    if not points:
        return ProgressLine(title, now or UNKNOWN, "", "", "", "", "", "", f"{title}: nothing yet")
    last_x, last = points[-1]
    if all(value == bottom for _, value in points):
        bottom = 0.0  # A line along the edge would look like none.
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
    )


@dataclass(frozen=True)
class TimeBar:
    """One row of a comparison of times: from zero, in percent of the longest.

    Attributes:
        label: Whose time.
        kind: `own`, `pacer`, `baseline`, `incumbent` or `floor`: how it is drawn.
        value: The time in words.
        middle: Where the middle time lies.
        low: Where the interval begins.
        span: How long it is.
    """

    label: str
    kind: str
    value: str
    middle: float
    low: float
    span: float


def bar(label: str, kind: str, value: str, times_us: tuple[float, float, float], longest_us: float) -> TimeBar:
    """Place a time and its interval.

    Args:
        label: Whose time.
        kind: How it is drawn.
        value: In words.
        times_us: Lower bound, middle and upper bound, microseconds.
        longest_us: What the full width stands for.
    """
    low, middle, high = (100 * _scaled(time, 0.0, longest_us) for time in times_us)
    return TimeBar(label, kind, value, round(middle, 2), round(low, 2), round(max(high - low, 0.0), 2))


def spacing_for(evaluations: int, points: int) -> int:
    """Evaluations between two points of a course that has about as many points; a power of two, as milestones are."""
    return 1 << max(0, (evaluations // points).bit_length() - 1)


def _scaled(value: float, low: float, high: float) -> float:
    """Where a value lies between two ends, 0 to 1."""
    return 0.0 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
