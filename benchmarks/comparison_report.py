"""Report on searches compared with baselines: a mean, a table, a plot."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import exp, inf, log, sqrt
from pathlib import Path

from benchmarks.bars import RatioBar, draw
from benchmarks.figures import FigureRows, Row, read_lines

GOAL = 1.2
"""Geometric mean over the best baseline of each row that is aimed at."""
COLUMNS = ("eager", "compile", "max_autotune", "liger", "helion")
ONE_CALL = ("native", "sdpa", "sdpa_flash", "sdpa_cudnn", "sdpa_efficient")
"""PyTorch's single calls; `sdpa` let PyTorch choose the backend, until November 2026."""
BASELINES = (*COLUMNS, *ONE_CALL)

NOT_REACHED = "not reached"
"""State of a row that was not begun."""

Fastest = tuple[float, str]
"""Microseconds, and the baseline that takes them."""
NOBODY: Fastest = (inf, "")


def best(lines: Iterable[Row]) -> list[Row]:
    """One row an entry, in the order in which they were begun: the one with most figures and the fastest kernel.

    Max-autotune does not pick the same kernels every time, so that a row that was compared in several runs is held
    against the fastest baseline of any of them as well (`over_strongest`).
    """
    found: dict[str, Row] = {}
    strongest: dict[str, Fastest] = {}
    for line in (line for line in lines if line["kind"] == "row"):
        key = line["row"]
        if key not in found or _worth(line) >= _worth(found[key]):
            found[key] = line
        strongest[key] = min([strongest.get(key, NOBODY), *_times(line)])
    rows = [{**row, **_dated(row), **_stand(row, *strongest[key])} for key, row in found.items()]
    return [{name: value for name, value in row.items() if name not in ("kind", "session")} for row in rows]


def _times(line: Row) -> Iterator[Fastest]:
    """Return the times of the baselines in a line, and of the fastest in the joined lines of a finished file."""
    told = [(line.get(f"{name}_us"), name) for name in BASELINES]
    told.append((line.get("strongest_us"), line.get("strongest", "")))
    return ((time_us, name) for time_us, name in told if time_us)


def _dated(line: Row) -> Row:
    """When a line was written; finished files have said so."""
    return {"date": datetime.fromtimestamp(line["session"], UTC).date().isoformat()} if "session" in line else {}


def _worth(row: Row) -> tuple[int, float]:
    known = sum(row.get(name) is not None for name in ("objective", "reef_us", "over_best"))
    return known + (row["state"] != NOT_REACHED), -(row.get("reef_us") or 0.0)


def _stand(row: Row, time_us: float, name: str) -> Row:
    """Return the ratio of a compared row to the fastest baseline of any run."""
    if not row.get("over_best"):
        return {}
    over = min(row["over_best"], time_us / row["reef_us"])
    return {"strongest": name, "strongest_us": time_us, "over_strongest": over}


def summary(rows: Sequence[Row]) -> Row:
    """Counts, and geometric means over rows that were compared: in their runs, and over the strongest of any run.

    Intervals of rows are independent, so that the logarithms' half-widths add up by their squares.
    """
    compared = [row for row in rows if row.get("over_best")]
    lost = [row for row in compared if row["over_strongest"] * (1 - row["over_best_half_width"]) <= 1]
    found: Row = {
        "rows_in_all": len(rows),
        "compared": len(compared),
        "not_compared": {row["row"]: _why(row) for row in rows if row not in compared},
        "faster_for_sure": len(compared) - len(lost),
        "not_faster": {row["row"]: row["strongest"] for row in lost},
        "strongest_baselines": dict(Counter(row["strongest"] for row in compared)),
        "goal": GOAL,
    }
    if compared:
        half = sqrt(sum(row["over_best_half_width"] ** 2 for row in compared)) / len(compared)
        for name, over in (("geometric_mean", "over_strongest"), ("geometric_mean_in_runs", "over_best")):
            mean = statistics.fmean(log(row[over]) for row in compared)
            found[name] = {"low": exp(mean - half), "mid": exp(mean), "high": exp(mean + half)}
        shares = [row["floor_share"] for row in compared if row.get("floor_share")]
        found["median_floor_share"] = statistics.median(shares) if shares else None
    return found


def table(rows: Sequence[Row]) -> str:
    """Rows as Markdown; times in microseconds."""
    heads = ["operator, bfloat16", "searched", "evaluations", "found", *(name for name in COLUMNS), "one call"]
    heads += ["over the best", "best baseline", "over the strongest", "of the floor", "a copy"]
    text = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for row in rows:
        cells = [row["row"], f"{row['search_s']:.0f} s" if "search_s" in row else "", row.get("evaluations", "")]
        cells += [_us(row.get("reef_us")), *(_us(row.get(f"{name}_us")) for name in COLUMNS)]
        called = [(row[f"{name}_us"], name) for name in ONE_CALL if row.get(f"{name}_us")]
        cells.append(" ".join(f"{_us(time_us)} {name}".removesuffix(" native") for time_us, name in sorted(called)[:1]))
        if row.get("over_best"):
            cells += [f"{row['over_best']:.3f} (± {100 * row['over_best_half_width']:.1f} %)", row["best_baseline"]]
            cells.append(f"{row['over_strongest']:.3f} ({row['strongest']} {_us(row['strongest_us'])})")
        else:
            cells += [_why(row), "", ""]
        cells += [f"{100 * row['floor_share']:.0f} %" if row.get("floor_share") else "", _us(row.get("copy_us"))]
        text.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(text) + "\n"


def _why(row: Row) -> str:
    """Return the reason why a row has no ratio."""
    return str(row.get("reason") or ("not compared" if row.get("objective") else row.get("state")))


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def lines_of(path: Path, figures: FigureRows) -> list[Row]:
    """The lines of a lane, or what a finished file says as lines; `figures` take over where those were measured."""
    if path.suffix != ".json":
        return read_lines(path)
    known = figures.adopt(path)
    return [*known["rates"], *({"kind": "row", **row} for row in known["rows"])]


def conclude(lines: Iterable[Row], order: Sequence[str], name: str, figures: FigureRows, folder: Path) -> Row:
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
    rows = sorted(best(lines), key=lambda row: place.get(row["row"], len(place)))
    told = summary(rows)
    rates = [line for line in lines if line["kind"] == "rates"]
    figures.rows[:] = rows
    figures.conclude(summary=told, rates=rates)
    (folder / f"{name}.md").write_text(table(rows))
    bars = [
        RatioBar(
            row["row"],
            row["over_strongest"],
            row["over_strongest"] * (1 - row["over_best_half_width"]),
            row["over_strongest"] * (1 + row["over_best_half_width"]),
            row["strongest"],
            row.get("floor_share"),
        )
        for row in rows
        if row.get("over_best")
    ]
    if bars:
        mean = told["geometric_mean"]["mid"]
        counted = f"{len(bars)} of {len(rows)} rows"
        title = f"Speedup over the fastest baseline of any run, geometric mean {mean:.3f} of {counted}"
        (folder / f"{name}.svg").write_text(draw(title, bars))
    return told
