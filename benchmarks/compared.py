"""What follows from the rows of searches that were compared with baselines: a mean, a table, a plot."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from math import exp, log, sqrt
from pathlib import Path

from benchmarks.bars import Bar, draw
from benchmarks.figures import Figures, Row, read_lines

GOAL = 1.2
"""Geometric mean over the best baseline of each row that is aimed at."""
COLUMNS = ("eager", "compile", "max_autotune", "liger")


def latest(lines: Iterable[Row]) -> list[Row]:
    """One row an entry, in the order in which they were begun: the last one with most figures."""
    found: dict[str, Row] = {}
    for line in lines:
        if line["kind"] == "row":
            known = found.get(line["row"], {})
            if _known(line) >= _known(known):
                found[line["row"]] = {name: value for name, value in line.items() if name not in ("kind", "session")}
    return list(found.values())


def _known(row: Row) -> int:
    return sum(row.get(name) is not None for name in ("objective", "reef_us", "over_best"))


def summary(rows: Sequence[Row]) -> Row:
    """Counts, and the geometric mean over rows that were compared, with its interval.

    Intervals of rows are independent, so that the logarithms' half-widths add up by their squares.
    """
    compared = [row for row in rows if row.get("over_best")]
    logs = [log(row["over_best"]) for row in compared]
    lost = [row for row in compared if row["over_best"] * (1 - row["over_best_half_width"]) <= 1]
    found: Row = {
        "rows_in_all": len(rows),
        "compared": len(compared),
        "not_compared": {row["row"]: _why(row) for row in rows if row not in compared},
        "faster_for_sure": len(compared) - len(lost),
        "not_faster": {row["row"]: row["best_baseline"] for row in lost},
        "best_baselines": dict(Counter(row["best_baseline"] for row in compared)),
        "goal": GOAL,
    }
    if compared:
        mean = statistics.fmean(logs)
        half = sqrt(sum(row["over_best_half_width"] ** 2 for row in compared)) / len(compared)
        found["geometric_mean"] = {"low": exp(mean - half), "mid": exp(mean), "high": exp(mean + half)}
        shares = [row["floor_share"] for row in compared if row.get("floor_share")]
        found["median_floor_share"] = statistics.median(shares) if shares else None
    return found


def table(rows: Sequence[Row]) -> str:
    """Rows as Markdown; times in microseconds."""
    heads = ["operator, bfloat16", "searched", "evaluations", "found", *(name for name in COLUMNS), "one call"]
    heads += ["over the best", "best baseline", "of the floor"]
    text = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for row in rows:
        cells = [row["row"], f"{row['search_s']:.0f} s" if "search_s" in row else "", row.get("evaluations", "")]
        cells += [_us(row.get("reef_us")), *(_us(row.get(f"{name}_us")) for name in COLUMNS)]
        cells.append(_us(row.get("native_us") or row.get("sdpa_us")))
        if row.get("over_best"):
            cells.append(f"{row['over_best']:.3f} (± {100 * row['over_best_half_width']:.1f} %)")
            cells.append(row["best_baseline"])
        else:
            cells += [_why(row), ""]
        cells.append(f"{100 * row['floor_share']:.0f} %" if row.get("floor_share") else "")
        text.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(text) + "\n"


def _why(row: Row) -> str:
    """Why a row has no ratio."""
    return str(row.get("reason") or ("not compared" if row.get("objective") else row.get("state")))


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def lines_of(path: Path, figures: Figures) -> list[Row]:
    """The lines of a lane, or what a finished file says as lines; `figures` take over where those were measured."""
    if path.suffix != ".json":
        return read_lines(path)
    known = figures.adopt(path)
    return [*known["rates"], *({"kind": "row", **row} for row in known["rows"])]


def conclude(lines: Iterable[Row], order: Sequence[str], name: str, figures: Figures, folder: Path) -> Row:
    """Write `<name>.json`, `<name>.md` and, where something was compared, `<name>.svg`; the summary.

    Args:
        lines: Of all lanes.
        order: Keys of the suite's rows; rows that are not in it come last.
        name: The suite's.
        figures: The file.
        folder: Where the others are written.
    """
    lines = list(lines)
    place = {key: number for number, key in enumerate(order)}
    rows = sorted(latest(lines), key=lambda row: place.get(row["row"], len(place)))
    told = summary(rows)
    rates = [line for line in lines if line["kind"] == "rates"]
    figures.rows[:] = rows
    figures.conclude(summary=told, rates=rates)
    (folder / f"{name}.md").write_text(table(rows))
    bars = [
        Bar(
            row["row"],
            row["over_best"],
            row["over_best"] * (1 - row["over_best_half_width"]),
            row["over_best"] * (1 + row["over_best_half_width"]),
            row["best_baseline"],
            row.get("floor_share"),
        )
        for row in rows
        if row.get("over_best")
    ]
    if bars:
        mean = told["geometric_mean"]["mid"]
        title = f"Speedup over the best baseline, geometric mean {mean:.3f} of {len(bars)} of {len(rows)} rows"
        (folder / f"{name}.svg").write_text(draw(title, bars))
    return told
