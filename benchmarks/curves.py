"""Curves over evaluations as a plain SVG, readable without any script."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 920, 420, 60, 40, 280, 44
COLOURS = (
    *("#0b6e4f", "#c1121f", "#1d4e89", "#e09f3e", "#6a4c93", "#3d405b"),
    *("#2a9d8f", "#9c6644", "#7f7f7f", "#ef476f", "#90be6d", "#4cc9f0"),
)
TICKS = 5


def draw(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Best so far over evaluations, one line a name; the scale begins at the lowest value."""
    drawn = {name: curve for name, curve in curves.items() if curve}
    low = min(min(curve) for curve in drawn.values())
    high = max(max(curve) for curve in drawn.values())
    longest = max(map(len, drawn.values()))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(at: int, value: float) -> str:
        x = LEFT + across * at / max(1, longest - 1)
        y = TOP + down * (1 - (value - low) / ((high - low) or 1.0))
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for tick in range(TICKS):
        value, at = low + (high - low) * tick / (TICKS - 1), (longest - 1) * tick // (TICKS - 1)
        y = TOP + down * (1 - tick / (TICKS - 1))
        x = LEFT + across * at / max(1, longest - 1)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + across}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.3f}</text>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 22}" text-anchor="middle">{at + 1}</text>')
    parts.append(f'<text x="{LEFT + across / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">evaluations</text>')
    for index, (name, curve) in enumerate(drawn.items()):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(place(at, value) for at, value in enumerate(curve))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        y = TOP + 14 + 18 * index
        parts.append(f'<path d="M{WIDTH - RIGHT + 14} {y - 4}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 38}" y="{y}">{escape(name)} {curve[-1]:.3f}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
