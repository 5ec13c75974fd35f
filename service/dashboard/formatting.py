"""Format figures and times, the same on every page. An unknown figure is a dash, never a zero."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from kernelreef.short_ids import brief

UNKNOWN = "\u2013"
"""Dash in place of an unknown figure."""
TO = "\u2013"
"""Dash between the two ends of an interval."""
TIMES = "\u00d7"
"""Multiplication sign after a factor."""
MARKS = {"measured": "", "predicted": "\u2248", "recorded": "rec. "}
"""Sign before a figure by its provenance, so that a figure copied from a page keeps it."""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Bill(Protocol):
    """LLM calls and their cost. `unpriced` calls have no known price, and are not part of the cost."""

    @property
    def calls(self) -> int:
        """Number of calls."""

    @property
    def usd(self) -> float:
        """Known cost, US dollars."""

    @property
    def unpriced(self) -> int:
        """Number of calls whose price is unknown."""


def sign(provenance: str) -> str:
    """Return the sign that precedes a figure of this provenance."""
    return MARKS[provenance]


def speedup(value: float | None, provenance: str = "measured") -> str:
    """Format a speedup, such as 1.83x, with the sign of its provenance."""
    return UNKNOWN if value is None else f"{MARKS[provenance]}{value:.{2 if value < 100 else 0}f}{TIMES}"


def interval(low: float | None, high: float | None, provenance: str = "measured") -> str:
    """Format the bounds of a speedup, or one figure if they are equal."""
    if low is None or high is None:
        return UNKNOWN
    if f"{low:.3f}" == f"{high:.3f}":
        return speedup(low, provenance)
    return f"{MARKS[provenance]}{low:.2f}{TO}{high:.2f}{TIMES}"


def share(value: float | None) -> str:
    """Format a share of one in percent, with one decimal below ten."""
    if value is None:
        return UNKNOWN
    percent = 100 * value
    return f"{percent:.1f}%" if 0 < percent < 9.95 else f"{percent:.0f}%"


def count(value: float | None) -> str:
    """Format a whole number in groups of three digits."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def evaluations(value: float) -> str:
    """Format a number of evaluations."""
    return f"{value:,.0f} evaluation{'s' * (value != 1)}"


def decimal(value: float | None) -> str:
    """Format a figure with about four digits, without an exponent if it needs none."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def time_us(value: float | None, provenance: str = "measured") -> str:
    """Format a time of microseconds in a suitable unit."""
    if value is None:
        return UNKNOWN
    size, unit = next(((size, unit) for size, unit in ((1e6, "s"), (1e3, "ms")) if value >= size), (1, "µs"))
    scaled = value / size
    return f"{MARKS[provenance]}{scaled:.{0 if scaled >= 1000 else 1 if scaled >= 100 else 2}f} {unit}"


def size_bytes(value: float | None) -> str:
    """Format a size in the largest unit that leaves at least one."""
    if value is None:
        return UNKNOWN
    power = 0
    while power + 1 < len(UNITS) and value >= 1024 ** (power + 1):
        power += 1
    scaled = value / 1024**power
    return f"{scaled:.0f} {UNITS[power]}" if scaled == int(scaled) else f"{scaled:.1f} {UNITS[power]}"


def duration_s(value: float | None) -> str:
    """Format a duration in its two largest units."""
    if value is None:
        return UNKNOWN
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def moment(value: datetime | None) -> str:
    """Format a time to the second, UTC."""
    return UNKNOWN if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def usd(value: float | None) -> str:
    """Format dollars to the cent, or finer below one dollar."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value == 0 or value >= 1 else f"${value:.4f}"


def spending(bill: Bill) -> str:
    """Format the cost of LLM calls: "unknown" if no call has a known price, and "at least" if some have none."""
    if bill.unpriced and bill.unpriced >= bill.calls:
        return "unknown"
    return f"at least {usd(bill.usd)}" if bill.unpriced else usd(bill.usd)


def title(name: str) -> str:
    """Format one of our names for a heading: underscores become spaces."""
    return name.replace("_", " ")


def settings(configuration: Mapping[str, object]) -> str:
    """Format a configuration in one line."""
    return ", ".join(f"{name}={value}" for name, value in configuration.items())


FILTERS = {
    function.__name__: function
    for function in (
        sign,
        speedup,
        interval,
        share,
        count,
        decimal,
        time_us,
        size_bytes,
        duration_s,
        moment,
        usd,
        spending,
        brief,
        settings,
    )
} | {"words": title}
"""Template filters by name."""
