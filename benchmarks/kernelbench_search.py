"""Searches for problems of KernelBench that were chosen before anybody looked, and fast_p over them.

    python -m benchmarks.kernelbench_search --problems PATH --folder problems     # no card: operators and their seeds
    python -m benchmarks.kernelbench_search --folder problems --minutes 9 --out results

`benchmarks/kernelbench_chosen.txt` lists the problems, 20 of each level, drawn from all of them by a fixed seed whether
they can be judged or not; `python -m benchmarks.kernelbench PATH --choose` draws it again. PATH is the folder with
`level1` and `level2` of a checkout of KernelBench. Problems without a seed by TorchInductor are not searched for, and
listed with the reason. Both steps go on where they ended when they are said again with the same folder.

Several cards of a host take shares, as in `searches.py`, and `--lines` makes one result of all their lines:

    taskset -c 0-15 python -m benchmarks.kernelbench_search --folder problems --out a --card 0 --share 0/2
    taskset -c 16-31 python -m benchmarks.kernelbench_search --folder problems --out b --card 1 --share 1/2
    python -m benchmarks.kernelbench_search --folder problems --out results --lines a/*.jsonl b/*.jsonl
"""

import argparse
import asyncio
import json
import random
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

from benchmarks.comparison_report import best
from benchmarks.figures import FigureRows, LineLog, Row, read_lines
from benchmarks.record import RESULTS
from benchmarks.searches import RowLog, lane_options, left_of, search_all, terms_of
from benchmarks.suites import SuiteEntry
from service.analysis.kernelbench import ProblemResult, fast_shares
from service.cli.new import read_problem
from service.errors import InvalidInput
from service.fleet.kernelbench import KernelbenchImporter, SourceFile
from service.operators.catalogue import load_operator
from service.operators.kernelbench import files_of_operator, name_of_problem
from workers.protocol import Outcome, Ratio

CHOSEN = Path(__file__).parent / "kernelbench_chosen.txt"
CHOICE_SEED, CHOSEN_OF_A_LEVEL = 20261121, 20
"""Seed of the random choice, and the number of problems per level."""
TARGET = "sm_90"
PREPARED = "prepared.jsonl"
NAME = "kernelbench_search"


def draw(problems: Sequence[Path]) -> list[str]:
    """Problems to search for, as `level1/19_ReLU.py`: the same each time, of each level."""
    drawn: list[str] = []
    for level in sorted({problem.parent.name for problem in problems}):
        names = [f"{level}/{problem.name}" for problem in problems if problem.parent.name == level]
        chosen = random.Random(f"{CHOICE_SEED}:{level}").sample(names, min(CHOSEN_OF_A_LEVEL, len(names)))
        drawn += sorted(chosen, key=names.index)
    return drawn


async def prepare(root: Path, chosen: Iterable[str], folder: Path) -> None:
    """Make a folder for each problem that becomes an operator, and a line for each that says what came of it."""
    with closing(LineLog(folder / PREPARED)) as lines:
        known = {row["problem"] for row in lines.rows}
        async with KernelbenchImporter(target=TARGET) as importer:
            for key in (key for key in chosen if key not in known):
                name = name_of_problem((root / key).resolve())
                row: Row = {"problem": key, "operator": name, "seed": False, "reason": ""}
                try:
                    imported = await importer.operator(SourceFile(read_problem(root / key), name))
                except InvalidInput as error:
                    lines.add({**row, "reason": error.detail})
                    continue
                (folder / name).mkdir(parents=True, exist_ok=True)
                for file, text in files_of_operator(imported.operator, imported.notes).items():
                    (folder / name / file).write_text(text)
                row["seed"] = bool(imported.operator.seeds)
                row["reason"] = imported.no_seed and f"no kernel to start from: {imported.no_seed}"
                lines.add(row)
                print(key, row["reason"] or "has a seed", flush=True)


def entries_of(prepared: Sequence[Row], folder: Path) -> list[SuiteEntry]:
    """List the problems to search, levels in turn, as time may end before all are done."""
    levels: dict[str, list[Path]] = {}
    for row in prepared:
        levels.setdefault(row["problem"].partition("/")[0], []).append(folder / row["operator"])
    seeded = {folder / row["operator"] for row in prepared if row["seed"]}
    homes = [home for turn in zip_longest(*levels.values()) for home in turn if home in seeded]
    return [SuiteEntry(home.name, load_operator(home).shapes[0].dims, home=home) for home in homes]


def joined(prepared: Sequence[Row], lines: Iterable[Row]) -> tuple[Row, list[Row]]:
    """Summarise the lines of searches: fast_p, and a row for every chosen problem."""
    found = {row["operator"]: row for row in best(lines)}
    told = ({name: row[name] for name in ("problem", "operator", "seed", "reason")} for row in prepared)
    rows = [{**found.get(row["operator"], {}), **row, "reason": _reason(row, found)} for row in told]
    results = [
        ProblemResult(
            row["operator"],
            judged=_judged(row),
            reason=row["reason"],
            speedups={name: Ratio.model_validate(ratio) for name, ratio in row.get("over", {}).items()},
        )
        for row in rows
    ]
    levels = sorted({row["problem"].partition("/")[0] for row in rows})
    of_level = {
        level: [r for r, row in zip(results, rows, strict=True) if row["problem"].startswith(level)] for level in levels
    }
    return {
        "chosen": len(rows),
        "with a seed": sum(row["seed"] for row in rows),
        "seed correct": sum(Outcome.CORRECT in row.get("seeds", ())[:1] for row in rows),
        "judged": sum(result.judged for result in results),
        "fast": [asdict(share) for share in fast_shares(results)],
        "fast_by_level": {level: [asdict(share) for share in fast_shares(each)] for level, each in of_level.items()},
    }, rows


def _reason(row: Row, found: dict[str, Row]) -> str:
    """Return the reason why a problem was not searched, or the reason that its search gave."""
    if row["reason"]:
        return str(row["reason"])
    return str(found[row["operator"]].get("reason", "")) if row["operator"] in found else "it was not searched for"


def _judged(row: Row) -> bool:
    """Return True if the first seed has a verdict; later failures concern the kernels."""
    return bool(row.get("seeds") and row["seeds"][0])


def main() -> None:
    """Prepare, search, or say what follows from lines."""
    options = _options()
    if options.problems:
        asyncio.run(prepare(options.problems, options.chosen.read_text().split(), options.folder))
        return
    prepared = read_lines(options.folder / PREPARED)
    if options.lines:
        _conclude(options, prepared, [row for path in options.lines for row in read_lines(path)])
        return
    terms, (first, step) = terms_of(options), options.share
    with closing(LineLog(options.out / f"{NAME}.jsonl")) as lines:
        mine = entries_of(prepared, options.folder)[first::step]
        left = left_of(mine, lines, measured=False)
        asyncio.run(search_all(options, terms, left, RowLog(lines, terms.device)))
        rows = list(lines.rows)
    _conclude(options, prepared, rows)


def _conclude(options: argparse.Namespace, prepared: Sequence[Row], lines: Sequence[Row]) -> None:
    told, rows = joined(prepared, lines)
    figures = FigureRows(options.out, NAME, options.card if options.lines else 0)
    figures.rows[:] = rows
    figures.conclude(summary=told)
    print(json.dumps({name: count for name, count in told.items() if isinstance(count, int)}))


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--problems", type=Path, help="the folder with level1, level2, …: prepare, and search nothing")
    options.add_argument("--chosen", type=Path, default=CHOSEN, help="lists problems, as level1/19_ReLU.py")
    options.add_argument("--folder", type=Path, default=Path("kernelbench-out"), help="operators that were prepared")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    lane_options(options)
    return options.parse_args()


if __name__ == "__main__":
    main()
