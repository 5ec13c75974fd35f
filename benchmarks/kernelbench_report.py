"""Report of the KernelBench campaign from its lines: rows, shares and means by level, a table, solutions.

Rows have a problem's `level`, `problem`, `contract`, `how`, `outcome`, times in microseconds with intervals, `speedup`
over each baseline, `sol` (the share of the gap between the fastest baseline and the floor that the kernel closes), the
`emitter` that found the kernel and `root_emitter`, which began its line.
"""

import argparse
import json
import random
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import exp, inf, log
from pathlib import Path

from benchmarks.bars import RatioBar, draw
from benchmarks.comparison_report import best
from benchmarks.figures import FigureRows, Row
from benchmarks.kernelbench_answers import recorded_kernels
from benchmarks.kernelbench_defects import FOOLED, UNRELIABLE, is_defective
from benchmarks.kernelbench_defects import NAME as DEFECTS
from benchmarks.kernelbench_evaluator import ANSWER, THEIR_CHEATING
from benchmarks.kernelbench_evaluator import CHEATING as CHEATS
from benchmarks.kernelbench_lot import read_list, row_key
from benchmarks.kernelbench_prepare import DEFAULT, has_own_row
from service.analysis.kernelbench import model_new, wilson
from service.errors import InvalidInput
from service.operators.catalogue import load_operator
from service.operators.kernelbench import name_of_problem
from workers.protocol import Outcome

NAME = "kernelbench_campaign"
THRESHOLDS = (1.0, 1.5, 2.0)
"""Values of p in fast_p."""
AGAINST = ("eager", "compile", "max_autotune")
RULES, MODEL = "rules", "model"
RESAMPLES, RESAMPLING_SEED = 2000, 0
"""Bootstrap of a geometric mean's interval, over problems."""
BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"
"""Marks around the parts of the page that are filled from results."""
EMPTY = "No row of a card is there yet.\n"
UNEXAMINED, UNJUDGED_CHEATS = "Not all problems have been examined yet.\n", "They have not been judged yet.\n"
NOT_REACHED = "not_reached"
"""Outcome of a problem that no sitting has come to."""
UNIMPORTED, UNSEEDED, UNJUDGED = "not_importable", "no_seed", "not_judged"
"""Outcomes of problems without a verdict on any kernel."""


def rows_of(
    lines: Sequence[Row], prepared: Sequence[Row], defects: Mapping[str, str], wanted: Sequence[tuple[str, str]]
) -> list[Row]:
    """Make a row for every listed problem under every contract and way that was begun.

    Args:
        lines: Lines of all sittings.
        prepared: Lines of `kernelbench_prepare`.
        defects: Defects by problem.
        wanted: Problems, and ways that are asked of them.
    """
    found = {row["row"]: row for row in best(lines)}
    dated = {line["session"]: line for line in lines if line["kind"] == "sitting"}
    sessions = {line["row"]: dated.get(line["session"], {}) for line in lines if line["kind"] == "row"}
    made = {(row["problem"], row["contract"]): row for row in prepared}
    begun = {(row["contract"], row["how"]) for row in found.values() if "contract" in row}
    rows = []
    for contract, how in sorted(begun, key=str):
        for problem in [key for key, way in wanted if way == how and has_own_row(contract, prepared, key)]:
            key = row_key(problem, contract, how)
            start: Row = {"level": problem.partition("/")[0], "problem": problem, "contract": contract, "how": how}
            start["defect"] = defects.get(problem, "")
            rows.append(start | _result(found.get(key), made.get((problem, contract))) | _origin(sessions.get(key)))
    return rows


def merged(former: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Add rows to those of an earlier result, whose lines need not be at hand.

    Of two rows with figures the one with the faster kernel counts, unless it alone lacks torch.compile's time.
    """
    found = {(row["problem"], row["contract"], row["how"]): row for row in former}
    for row in rows:
        key = row["problem"], row["contract"], row["how"]
        before = found.get(key)
        if before is None or (row["outcome"] != NOT_REACHED and _rank(row) >= _rank(before)):
            found[key] = row
    return sorted(found.values(), key=lambda row: (row["contract"], row["how"]))


def _rank(row: Row) -> tuple[bool, float]:
    """Return what makes a row count before another: torch.compile's time, then a fast kernel."""
    return bool(row.get("compile_us")), -(row.get("reef_us") or inf)


def _origin(sitting: Row | None) -> Row:
    return {} if not sitting else {"device": sitting.get("device"), "versions": sitting.get("versions")}


def _result(row: Row | None, prepared: Row | None) -> Row:
    """Return what a row says of its kernel, or why there is none."""
    if prepared is not None and (prepared["reason"] or not prepared["seeds"]):
        unseeded = prepared["reason"].startswith("no kernel to start from")
        return {"outcome": UNSEEDED if unseeded else UNIMPORTED, "reason": prepared["reason"]}
    if row is None:
        return {"outcome": NOT_REACHED, "reason": "no sitting has come to it yet"}
    kept = ("reason", "state", "evaluations", "search_s", "ready_s", "compare_s", "emitter", "root_emitter", "date")
    kept += (
        "admitted",
        "answered",
        "budget_s",
        "card_s",
        "ended",
        "moments",
        "device_s",
        "floor_us",
        "moved_bytes",
        "flops",
        "reef_us",
        "reef_low_us",
        "reef_high_us",
        "asked",
        "skipped",
        "pairs",
    )
    told: Row = {name: row.get(name) for name in (*kept, *(f"{name}_us" for name in AGAINST))}
    seeds = row.get("seeds") or []
    correct = row.get("source") is not None
    told["outcome"] = Outcome.CORRECT.value if correct else next((each for each in seeds if each), UNJUDGED)
    told["speedup"] = {name: ratio for name, ratio in row.get("ratios", {}).items() if name in AGAINST}
    told["sol"] = sol_share(told)
    return told


def sol_share(row: Mapping[str, float | None]) -> float | None:
    """Return the closed share of the gap between the fastest baseline and the floor; None if it is not known."""
    times = [time for name in AGAINST if (time := row.get(f"{name}_us"))]
    mine, floor = row.get("reef_us"), row.get("floor_us")
    if not times or not mine or not floor or min(times) <= floor:
        return None
    return (min(times) - mine) / (min(times) - floor)


def shares(rows: Sequence[Row]) -> list[Row]:
    """Compute fast_p and the geometric mean by contract, way, level and baseline, with both denominators.

    A problem without a correct kernel is not fast. Problems that no sitting has reached are in no share.
    """
    found = []
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in (row for row in rows if row["outcome"] != NOT_REACHED):
        groups.setdefault((row["contract"], row["how"], row["level"]), []).append(row)
    for (contract, how, level), group in groups.items():
        for denominator in ("all", "sound"):
            counted = [row for row in group if denominator == "all" or not row["defect"]]
            for baseline in AGAINST:
                head = {"contract": contract, "how": how, "level": level, "of": denominator, "baseline": baseline}
                found.append(head | _share(counted, baseline))
    return found


def _share(rows: Sequence[Row], baseline: str) -> Row:
    # A row that was compared with other baselines alone says nothing of this one.
    rows = [row for row in rows if row.get("asked") is None or baseline in ("eager", *row["asked"])]
    ratios = [row["speedup"][baseline] for row in rows if row.get("speedup", {}).get(baseline)]
    told: Row = {"problems": len(rows), "timed": len(ratios), "geometric_mean": geometric_mean(ratios)}
    for p in THRESHOLDS:
        count, certain = (sum(ratio[end] > p for ratio in ratios) for end in ("mid", "low"))
        low, high = wilson(count, len(rows))
        told[f"fast_{p:g}"] = {"count": count, "certain": certain, "low": low, "high": high}
    return told


def geometric_mean(ratios: Sequence[Mapping[str, float]]) -> Row | None:
    """Compute the geometric mean over timed problems, with a bootstrap interval of 95 % over problems."""
    if not ratios:
        return None
    logs, rng = [log(ratio["mid"]) for ratio in ratios], random.Random(RESAMPLING_SEED)
    means = sorted(statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
    return {"low": exp(low), "mid": exp(statistics.fmean(logs)), "high": exp(high)}


def counts(rows: Sequence[Row]) -> Row:
    """Count outcomes by contract and way."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        count = found.setdefault(f"{row['contract']} {row['how']}", {})
        count[row["outcome"]] = count.get(row["outcome"], 0) + 1
    return found


def answer_counts(rows: Sequence[Row]) -> Row:
    """Count the verdicts on a model's kernels by contract and level."""
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        for answer in row.get("answered") or ():
            count = found.setdefault(f"{row['contract']} {row['level']}", {})
            outcome = answer["outcome"] or UNJUDGED
            count[outcome] = count.get(outcome, 0) + 1
    return found


def page(rows: Sequence[Row], told: Sequence[Row]) -> str:
    """Write the part of the page that follows from the results."""
    timed = [row for row in rows if row.get("reef_us")]
    if not timed:
        return EMPTY
    text = ["| contract, kernels by | level | of | baseline | problems | timed | fast_1 | fast_1.5 | fast_2 | mean |"]
    text.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in told:
        cells = [
            f"{row['contract']}, {row['how']}",
            row["level"],
            row["of"],
            row["baseline"],
            row["problems"],
            row["timed"],
        ]
        cells += [_fast(row[f"fast_{p:g}"], row["problems"]) for p in THRESHOLDS] + [_mean(row["geometric_mean"])]
        text.append(f"| {' | '.join(map(str, cells))} |")
    text += ["", "| problem | contract, by | µs | eager | compile | max-autotune | floor | SOL | found by | defect |"]
    text.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in (row for row in rows if row["outcome"] != NOT_REACHED):
        name = row["problem"].removesuffix(".py")
        if row["outcome"] != Outcome.CORRECT or not row.get("reef_us"):
            said = f"{row['outcome']}: {_short(row.get('reason') or '')}".rstrip(": ")
            text.append(f"| {name} | {row['contract']}, {row['how']} | {said} | | | | | | | {row['defect']} |")
            continue
        over = [_over(row, baseline) for baseline in AGAINST]
        sol = "" if row["sol"] is None else f"{100 * row['sol']:.0f} %"
        cells = [
            name,
            f"{row['contract']}, {row['how']}",
            f"{row['reef_us']:.1f}",
            *over,
            f"{row['floor_us']:.1f}",
            sol,
        ]
        text.append(f"| {' | '.join(cells)} | {row['emitter']} | {row['defect']} |")
    for kind, verdicts in answer_counts(rows).items():
        text += ["", f"A model's kernels, {kind}: {', '.join(f'{n} {name}' for name, n in sorted(verdicts.items()))}."]
    if left := sum(row["outcome"] == NOT_REACHED for row in rows):
        text += ["", f"{left} of {len(rows)} rows have not been reached by any sitting yet."]
    return "\n".join(text) + "\n"


def _fast(share: Row, problems: int) -> str:
    return f"{share['count']} ({100 * share['low']:.0f} to {100 * share['high']:.0f} %)" if problems else ""


def _mean(mean: Row | None) -> str:
    return "" if mean is None else f"{mean['mid']:.2f} ({mean['low']:.2f} to {mean['high']:.2f})"


def _over(row: Row, baseline: str) -> str:
    ratio = row["speedup"].get(baseline)
    return "" if ratio is None else f"{ratio['mid']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def _short(reason: str) -> str:
    return re.sub(r"[|\s]+", " ", reason)[:100]


def filled(document: str, parts: Mapping[str, str]) -> str:
    """Return a page with other parts between the marks of their names.

    Raises:
        ValueError: If it has no such marks.
    """
    for name, part in parts.items():
        before, begin, rest = document.partition(BEGIN.format(name))
        _, end, after = rest.partition(END.format(name))
        if not begin or not end:
            raise ValueError(f"the page has no marks '{BEGIN.format(name).strip()}' and '{END.format(name).strip()}'")
        document = f"{before}{begin}{part}{end}{after}"
    return document


def defects_of(path: Path) -> dict[str, str]:
    """Read the defects of problems, in words."""
    rows = json.loads(path.read_text())["rows"]
    return {
        row["problem"]: ", ".join([*row["passes"].get("float32", ()), *row["unreliable"]])
        for row in rows
        if is_defective(row)
    }


def write_solutions(
    lines: Sequence[Row], former: Sequence[Row], folder: Path, operators: Path, recording: Path
) -> list[str]:
    """Write the best kernels, and a model's kernels that were judged, as modules `ModelNew`.

    Args:
        lines: Lines of sittings, which have the best kernels.
        former: Rows of the results, which know a model's kernels of sittings whose lines are not at hand.
        folder: Where to write.
        operators: Operators that were prepared.
        recording: Kernels of a model.

    Returns:
        The reasons of those that cannot be written.
    """
    failed = []
    found = {row["row"]: row for row in map(as_line, former)}
    rows = [*(found | {row["row"]: row for row in best(lines) if "contract" in row}).values()]
    answers = {contract: recorded_kernels(recording, contract) for contract in {row["contract"] for row in rows}}
    for row in rows:
        for how, source in _solutions(row, answers[row["contract"]].get(row["operator"], ())):
            home = folder / row["contract"] / how
            home.mkdir(parents=True, exist_ok=True)
            note = f"{row['problem']}, {row['contract']} contract, {how}: judged by Kernelreef on {row['device']}."
            try:
                operator = load_operator(operators / row["contract"] / row["operator"])
                (home / f"{row['operator']}.py").write_text(model_new(operator, source, note))
            except InvalidInput as error:
                failed.append(f"{row['row']} {how}: {error.detail}")
    return failed


def as_line(row: Row) -> Row:
    """Return a row of the results as a line would tell it, without the best kernel."""
    key = row_key(row["problem"], row["contract"], row["how"])
    return {**row, "kind": "row", "session": 0.0, "row": key, "operator": name_of_problem(Path(row["problem"]))}


def _solutions(row: Row, answers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the kernels of a row by way: its best one, and a model's others that have a verdict of ours."""
    found = [(row["how"], row["source"])] if row.get("source") else []
    given = [each for each in row.get("answered") or () if each["outcome"] not in (None, Outcome.WORKER_LOST)]
    judged = [(f"{ANSWER}-{each['number']}", answers[each["number"] - 1]) for each in given]
    return found + [(how, source) for how, source in judged if source != row.get("source")]


def conclude(lines: Sequence[Row], prepared: Sequence[Row], options: argparse.Namespace) -> Row:
    """Write the results file, its plot, the solutions, and the table of the page; return the summary."""
    commit, listed = read_list(options.list)
    ways = [(each.key, RULES) for each in listed] + [(each.key, MODEL) for each in listed if each.drawn]
    earlier = _document(options.conclude / f"{NAME}.json")
    rows = merged(earlier["rows"], rows_of(lines, prepared, defects_of(options.conclude / f"{DEFECTS}.json"), ways))
    told: Row = {"commit": commit, "counts": counts(rows), "answers": answer_counts(rows), "shares": shares(rows)}
    if options.solutions is not None:
        told["unwritten"] = write_solutions(lines, rows, options.solutions, options.folder, options.answers)
    figures = FigureRows(options.conclude, NAME)
    figures.rows[:] = rows
    days = {datetime.fromtimestamp(line["session"], UTC).date().isoformat() for line in lines}
    rates = [*earlier["rates"], *(line for line in lines if line["kind"] == "rates")]
    rates = list({(line["session"], line["card"]): line for line in rates}.values())
    figures.conclude(summary=told, dates=sorted(days | {*earlier["dates"]}), rates=rates)
    bars = [_bar(row) for row in rows if row.get("reef_us") and (row["contract"], row["how"]) == (DEFAULT, RULES)]
    if bars:
        title = "KernelBench, default contract, rules: speedup over the fastest baseline"
        (options.conclude / f"{NAME}.svg").write_text(draw(title, bars))
    if options.page is not None:
        options.page.write_text(filled(options.page.read_text(), parts_of_page(options.conclude)))
    return told


def _bar(row: Row) -> RatioBar:
    name = min((name for name in AGAINST if row["speedup"].get(name)), key=lambda name: row["speedup"][name]["mid"])
    ratio = row["speedup"][name]
    share = row["floor_us"] / row["reef_us"] if row["floor_us"] else None
    return RatioBar(row["problem"], ratio["mid"], ratio["low"], ratio["high"], name, share)


def parts_of_page(folder: Path) -> dict[str, str]:
    """Return the parts of the page that follow from the results in a folder."""
    document = _document(folder / f"{NAME}.json")
    defects, cheats, theirs = (folder / f"{name}.json" for name in (DEFECTS, CHEATS, THEIR_CHEATING))
    return {
        "campaign": page(document["rows"], document["summary"]["shares"]),
        "defects": defects_table(json.loads(defects.read_text())["summary"]) if defects.exists() else UNEXAMINED,
        "cheats": cheats_table(_rows(cheats), _rows(theirs)) if cheats.exists() else UNJUDGED_CHEATS,
    }


def defects_table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Write the counts of defective problems by level."""
    ways = [name for name in (*FOOLED, *UNRELIABLE) if any(_passed(level, name) for level in counts.values())]
    text = [f"| level | problems | defective | {' | '.join(ways)} | not examined |", "| --- " * (len(ways) + 4) + "|"]
    for level, count in counts.items():
        cells = [level, count["problems"], count.get("defective", 0), *(_passed(count, way) for way in ways)]
        text.append(f"| {' | '.join(map(str, [*cells, count.get('not examined', 0)]))} |")
    return "\n".join(text) + "\n"


def _passed(count: Mapping[str, int], way: str) -> int:
    return count.get(f"float32: {way}", count.get(way, 0))


def _document(path: Path) -> Row:
    empty: Row = {"rows": [], "summary": {"shares": []}, "dates": [], "rates": []}
    return empty | (json.loads(path.read_text()) if path.exists() else {})


def _rows(path: Path) -> list[Row]:
    return list(_document(path)["rows"])


def cheats_table(rows: Sequence[Row], theirs: Sequence[Row]) -> str:
    """Write the verdicts on published cheats; `theirs` are those of KernelBench's evaluator, as far as it was run."""
    said = {row["cheat"]: _their_verdict(row) for row in theirs}
    heads = ["cheat", "published in", "KernelBench's evaluator, by its source", *(["run"] if said else []), "ours"]
    text = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in rows:
        cells = [row["cheat"], row["published"], row["kernelbench_by_source"]]
        cells += [said.get(row["cheat"], "not run")] if said else []
        text.append(f"| {' | '.join([*cells, row['outcome']])} |")
    return "\n".join(text) + "\n"


def _their_verdict(row: Row) -> str:
    """Return the verdict of KernelBench's evaluator in words."""
    if not row["correct"]:
        return "no verdict" if row["correct"] is None else "refused"
    flagged = ", flagged as excessive" if row["excessive_speedup"] else ""
    return f"accepted, {row['their_speedup']:.3g} times eager{flagged}" if row.get("their_speedup") else "accepted"
