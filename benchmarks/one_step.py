"""PyTorch functions and modules in one command each: searched or refused and why, and seconds to the first verdict.

python -m benchmarks.one_step PATH

PATH is the folder with `level1` to `level3` of a checkout of KernelBench, of which a fixed seed draws ten problems. The
other twenty are those of `benchmarks/one_step_functions.py`. A run goes on where an earlier one ended.
"""

import argparse
import ast
import json
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write
from workers.safe_python import PYTHON

FUNCTIONS = Path(__file__).with_name("one_step_functions.py")
HELPERS = ("rotate_half",)
DRAWN = 10
SEED = 39
LIMIT_S = 300.0
"""Seconds that a command may take until its first verdict, unless `--limit` says otherwise."""
NONE_CORRECT = 3
"""Exit status of a search without a correct kernel."""
VERDICT = re.compile(r"\b[1-9]\d*/\d+ evaluations, (?P<correct>\d+) correct(?:.*; failed: (?P<failed>.*))?")

Row = dict[str, Any]


def specs(kernelbench: Path) -> Iterator[tuple[str, str]]:
    """List the names of all cases, and what the command is given for each."""
    files = [file for level in (1, 2, 3) for file in sorted((kernelbench / f"level{level}").glob("*.py"))]
    for file in sorted(random.Random(SEED).sample(files, DRAWN)):
        yield f"KernelBench {file.parent.name}/{file.name}", str(file)
    for item in ast.parse(FUNCTIONS.read_text()).body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef) and item.name not in HELPERS:
            yield item.name, f"{FUNCTIONS}:{item.name}"


def searched(spec: str, folder: Path, limit_s: float) -> Row:
    """Run one command until its first verdict, and tell what became of it.

    A machine that others use needs a longer limit: a command that reaches it has no verdict, which says nothing of it.
    """
    command = [*PYTHON, "-m", "kernelreef", "search", spec, "--evaluations", "1", "--out", str(folder / "out")]
    home = Path(__file__).parents[1]
    environment = {**os.environ, "REEF_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(home)}
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            lines.append(line.strip())
            seconds = round(time.monotonic() - started, 1)
            if found := VERDICT.search(line):
                run.terminate()
                row = {"running": True, "seconds": seconds, "first_correct": found["correct"] != "0"}
                return row | {"reason": found["failed"] or ""}
            if seconds > limit_s:
                run.terminate()
                return {"running": None, "seconds": seconds, "reason": f"no verdict after {limit_s:.0f} s"}
    seconds = round(time.monotonic() - started, 1)
    if run.returncode in (0, NONE_CORRECT):
        return {"running": True, "seconds": seconds, "first_correct": run.returncode == 0, "reason": ""}
    said = [line for line in lines if line.startswith("reef: ") or "failed" in line] or lines[-1:]
    return {"running": False, "seconds": seconds, "reason": "".join(said[-1:]).removeprefix("reef: ")}


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="the folder with level1, level2 and level3")
    parser.add_argument("--only", default="", help="a regular expression: run these cases alone")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds until a command's first verdict")
    parser.add_argument("--out", type=Path, default=RESULTS / "one_step.json")
    options = parser.parse_args()
    lines = options.out.with_suffix(".jsonl")
    rows = {row["case"]: row for row in map(json.loads, lines.read_text().splitlines())} if lines.exists() else {}
    for case, spec in specs(options.path):
        if case in rows or not re.search(options.only, case):
            continue
        with tempfile.TemporaryDirectory() as folder:
            load = round(os.getloadavg()[0], 1)
            rows[case] = {"case": case, **searched(spec, Path(folder), options.limit), "load_average": load}
        print(json.dumps(rows[case]), flush=True)
        with lines.open("a") as file:
            file.write(json.dumps(rows[case]) + "\n")
    running = sum(bool(row["running"]) for row in rows.values())
    summary = {
        "cases": len(rows),
        "running": running,
        "first_correct": sum(bool(r.get("first_correct")) for r in rows.values()),
    }
    print(
        write(
            options.out.stem,
            [*rows.values()],
            options.out.parent,
            summary=summary,
            command="python -m benchmarks.one_step PATH",
        )
    )


if __name__ == "__main__":
    main()
