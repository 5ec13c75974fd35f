"""Horizontal bars as a plain SVG, readable without any script: a ratio with its interval, and a share beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LABEL, LEFT_PANEL, GAP, RIGHT_PANEL, END = 370, 380, 130, 180, 50
TOP, ROW, FOOT = 62, 22, 30
FASTER, SLOWER, SHARE = "#0b6e4f", "#c1121f", "#1d4e89"


@dataclass(frozen=True)
class RatioBar:
    """One row.

    Attributes:
        label: What it is of.
        ratio: Speedup over the best baseline.
        low: Lower bound of that.
        high: Upper bound.
        against: The best baseline's name.
        share: Of the floor that the time is, None where it is not known.
    """

    label: str
    ratio: float
    low: float
    high: float
    against: str
    share: float | None


def draw(title: str, bars: Sequence[RatioBar]) -> str:
    """All bars under each other; a line marks a ratio of one, and rows that are not faster for sure are red."""
    longest = max(1.0, *(bar.high for bar in bars))
    fullest = max(1.0, *(bar.share or 0.0 for bar in bars))
    shares = LABEL + LEFT_PANEL + GAP
    width, height = shares + RIGHT_PANEL + END, TOP + ROW * len(bars) + FOOT
    one = LABEL + LEFT_PANEL / longest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="14">{escape(title)}</text>',
        f'<text x="{LABEL}" y="48">over the fastest baseline, and which that was</text>',
        f'<text x="{shares}" y="48">share of the floor</text>',
    ]
    for number, bar in enumerate(bars):
        middle = TOP + ROW * number + ROW / 2
        colour = FASTER if bar.low > 1 else SLOWER
        low, ratio, high = (LABEL + LEFT_PANEL * value / longest for value in (bar.low, bar.ratio, bar.high))
        parts += [
            f'<text x="{LABEL - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(bar.label)}</text>',
            _bar(LABEL, middle, ratio - LABEL, colour),
            f'<path d="M{low:.1f} {middle:.1f}H{high:.1f}" stroke="black"/>',
            f'<text x="{max(high, one) + 6:.1f}" y="{middle + 4:.1f}">{bar.ratio:.3f} {escape(bar.against)}</text>',
        ]
        if bar.share is not None:
            long = RIGHT_PANEL * bar.share / fullest
            parts += [
                _bar(shares, middle, long, SHARE),
                f'<text x="{shares + long + 6:.1f}" y="{middle + 4:.1f}">{100 * bar.share:.0f} %</text>',
            ]
    parts.append(f'<path d="M{one:.1f} {TOP - 6}V{height - FOOT + 6}" stroke="black" stroke-dasharray="3 3"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(x: float, middle: float, long: float, colour: str) -> str:
    high = ROW - 8
    return f'<rect x="{x:.1f}" y="{middle - high / 2:.1f}" width="{long:.1f}" height="{high}" fill="{colour}"/>'
