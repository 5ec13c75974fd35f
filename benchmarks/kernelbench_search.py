"""Searches for problems of KernelBench that were chosen before anybody looked, and fast_p over them.

`benchmarks/kernelbench_chosen.txt` lists the problems, 20 of each level, drawn from all of them by a fixed seed whether
they can be judged or not; `python -m benchmarks.kernelbench PATH --choose` draws it again. Problems without a seed by
TorchInductor are not searched for, and listed with the reason.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from service.cli.imported import read_problem
from service.errors import BadInput
from service.hiring.kernelbench import Importer
from service.operators.kernelbench import files_of_operator, name_of_problem
from workers.protocol import Device

CHOSEN = Path(__file__).parent / "kernelbench_chosen.txt"
CHOICE_SEED, CHOSEN_OF_A_LEVEL = 20261121, 20
"""What the choice is drawn by, and how many of each level."""
REEF = (sys.executable, "-c", "from service.cli import main; main()")
LIMIT_S = 900.0
"""Seconds after which a search is ended from outside; its own stop rule comes before."""

Row = dict[str, Any]


def draw(problems: Sequence[Path]) -> list[str]:
    """Problems to search for, as `level1/19_ReLU.py`: the same each time, of each level."""
    drawn: list[str] = []
    for level in sorted({problem.parent.name for problem in problems}):
        names = [f"{level}/{problem.name}" for problem in problems if problem.parent.name == level]
        chosen = random.Random(f"{CHOICE_SEED}:{level}").sample(names, min(CHOSEN_OF_A_LEVEL, len(names)))
        drawn += sorted(chosen, key=names.index)
    return drawn


async def prepare(root: Path, device: str, folder: Path) -> dict[str, Row]:
    """Folders of operators for the chosen problems that have a seed; a row for each that says why one has none."""
    rows: dict[str, Row] = {}
    async with Importer(target=Device.parse(device).target) as importer:
        for key in CHOSEN.read_text().split():
            path = root / key
            name = name_of_problem(path)
            rows[name] = {"problem": key, "operator": name, "reason": "", "speedups": {}}
            try:
                imported = await importer.operator(name, read_problem(path))
            except BadInput as error:
                rows[name]["reason"] = error.detail
                continue
            rows[name]["reason"] = imported.no_seed and f"no kernel to start from: {imported.no_seed}"
            (folder / name).mkdir(parents=True, exist_ok=True)
            for file, text in files_of_operator(imported.operator, imported.notes).items():
                (folder / name / file).write_text(text)
    return rows


def search(root: Path, device: str, evaluations: int, seconds: int, folder: Path) -> tuple[list[Row], list[Row]]:
    """Search for the chosen problems one after another.

    Returns:
        The table of fast_p, and a row for every chosen problem.
    """
    rows = asyncio.run(prepare(root, device, folder))
    environment = {**os.environ, "REEF_DATA_DIR": str(folder / "data")}
    for name, row in rows.items():
        if row["reason"]:
            continue
        command = [*REEF, "search", str(folder / name), "--device", device, "--evaluations", str(evaluations)]
        command += ["--stop", f"seconds={seconds}", "--out", str(folder / "best"), "--json"]
        started = time.perf_counter()
        try:
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            row["exit"] = ended.returncode
        except subprocess.TimeoutExpired:
            row["reason"] = f"its search did not end in {LIMIT_S:g} s"
        row["seconds"] = round(time.perf_counter() - started, 1)
        print(name, row.get("exit"), row["seconds"], row["reason"])
    command = [*REEF, "kernelbench", "results", "--device", device, "--out", str(folder / "solutions"), "--json"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise SystemExit(told.stderr)
    found = json.loads(told.stdout.splitlines()[-1])
    for result in found["problems"]:
        row = rows[result["problem"]]
        row |= {"judged": result["judged"], "speedups": result["speedups"], "reason": row["reason"] or result["reason"]}
    return found["fast"], list(rows.values())
