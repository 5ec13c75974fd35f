"""The way of a newcomer, step by step and timed: from an operator's definition to its package in a small model.

    python -m benchmarks.newcomer --out results
    python -m benchmarks.newcomer --device model:sm_90 --evaluations 2 --out results     # where there is no card

Run the steps of `docs/tutorials/your-own-operator.md` one after the other, in an empty folder with an empty home, on
a card without other users. `newcomer.json` gets every step with its output. The first failing step ends the run:
without a card that is the model, whose layers are too large for a few cores.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import FigureRows, Row, device_of
from benchmarks.record import RESULTS
from workers.protocol import Device

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "relu2_gate"
REEF = (sys.executable, "-c", "import sys; from service.cli import main; sys.exit(main())")
PYTHON = (sys.executable,)
PACKAGE, SITE = "package", "site"
TOKENS = (4096, 16)
STEP_S, TIMED_OUT = 600.0, 124
"""Seconds of one step, and the exit status of one that takes longer, as `timeout` gives it."""
SAID_CHARS = 2000


def steps_of(device: Device, evaluations: int, seconds: int) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Every step after the seed: a name, what a user types, and what runs."""
    search = f"search ./relu2_gate --device {device.name} --evaluations {evaluations} --stop seconds={seconds} --json"
    for name, words in (
        ("check", "operators check ./relu2_gate"),
        ("search", search),
        ("export", f"export --out {PACKAGE}"),
    ):
        yield name, f"reef {words}", (*REEF, *words.split())
    install = f"pip install --no-deps --no-build-isolation ./{PACKAGE}"
    yield "install", install, (*PYTHON, "-m", *install.split(), "--quiet", "--target", SITE)
    for tokens in TOKENS:
        words = f"relu2_gate/model.py --tokens {tokens} --out model_{tokens}.json"
        yield f"model_{tokens}", f"python {words}", (*PYTHON, *words.split())
    yield (
        "tests",
        f"pytest {PACKAGE}/tests",
        (*PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{PACKAGE}/tests"),
    )
    yield "benchmark", f"python {PACKAGE}/benchmark.py", (*PYTHON, f"{PACKAGE}/benchmark.py")


class NewcomerRun:
    """The folder of a newcomer.

    Args:
        home: An empty folder.
        card: The only card that is seen.
    """

    def __init__(self, home: Path, card: int) -> None:
        self._home = home
        path = os.pathsep.join((str(home / SITE), os.environ.get("PYTHONPATH", "")))
        seen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(card)}
        self._environment = {**os.environ, **seen, "HOME": str(home), "PYTHONPATH": path}

    def take(self, name: str, typed: str, command: Sequence[str]) -> tuple[Row, str]:
        """Take a step; a row about it, and all that it said."""
        begun = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=self._home,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=STEP_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, TIMED_OUT, "", f"not done in {STEP_S:g} s")
        row = {
            "step": name,
            "command": typed,
            "seconds": round(time.monotonic() - begun, 1),
            "exit_status": done.returncode,
            "said": (done.stdout.strip() or done.stderr.strip())[-SAID_CHARS:],
        }
        return row, done.stdout

    def write_definition(self) -> None:
        """Write a newcomer's files: a definition, without the line that names a seed, and a model."""
        folder = self._home / "relu2_gate"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("seed.py", "__pycache__"))
        contract = (folder / "operator.toml").read_text()
        (folder / "operator.toml").write_text(re.sub(r"^seeds = .*\n", "", contract, flags=re.MULTILINE))

    def name_seed(self, seed: str) -> None:
        """Have the definition name a kernel to start from."""
        (self._home / "relu2_gate" / "seed.py").write_text(seed)
        shutil.copy(EXAMPLE / "operator.toml", self._home / "relu2_gate" / "operator.toml")

    def models(self) -> list[Row]:
        """Return the figures that the model printed."""
        return [json.loads(path.read_text()) for path in map(self._model, TOKENS) if path.exists()]

    def _model(self, tokens: int) -> Path:
        return self._home / f"model_{tokens}.json"


def main() -> None:
    """Go the whole way; exit status 1 if a step failed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    options.add_argument("--evaluations", type=int, default=60)
    options.add_argument("--seconds", type=int, default=100, help="of the search")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--device", type=Device.parse, help="instead of the card's, such as model:sm_90")
    chosen = options.parse_args()
    figures = FigureRows(chosen.out, "newcomer", chosen.card)
    device = chosen.device or device_of(chosen.card)
    with tempfile.TemporaryDirectory() as folder:
        way = NewcomerRun(Path(folder), chosen.card)
        way.write_definition()
        typed = "reef operators seed ./relu2_gate > relu2_gate/seed.py"
        row, seed = way.take("seed", typed, (*REEF, "operators", "seed", "./relu2_gate"))
        figures.add(row, f"seed: {row['seconds']} s")
        way.name_seed(seed)
        for step in steps_of(device, chosen.evaluations, chosen.seconds):
            if figures.rows[-1]["exit_status"]:
                break
            row, _ = way.take(*step)
            figures.add(row, f"{row['step']}: {row['seconds']} s")
        figures.conclude(
            summary={"seconds": round(sum(row["seconds"] for row in figures.rows), 1), "device": device.name},
            models=way.models(),
        )
    if figures.rows[-1]["exit_status"]:
        sys.exit(str(figures.rows[-1]["said"]))


if __name__ == "__main__":
    main()
