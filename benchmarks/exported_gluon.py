"""A kernel in Gluon from `reef judge` to an installed package in a small model, on one card.

    python -m benchmarks.exported_gluon --state /tmp/gluon --limit-s 300 --out rows

Each step is a command as a user gives it: `reef judge`, `reef search` with the kernel as its only seed, `reef export`,
`pip install` into a folder, the package's own tests, and the model of `exported_model`, which calls it by name. The
kernel's operator has PyTorch's single operator as its only baseline besides eager PyTorch, so that nothing is tuned.

`rows/exported_gluon.json` has a row per step, written when it ended: `wall_s` and its figures. `--device model:sm_90`
tries the script out where there is no card, with a kernel in Triton: `--operator softmax --kernel FILE`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.figures import device_of
from benchmarks.record import RESULTS, write
from workers.protocol import Device

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "operators/attention/seeds/gluon_queue.py"
NAME = "exported_gluon"
REEF = (sys.executable, "-m", "kernelreef")
BATCHES = ("1", "3", "8")
REASON_CHARS = 1500
LEAST_S = 5.0
"""Seconds that a step has even if none are left: it then fails by itself, with a reason."""

Row = dict[str, Any]


class StepFailed(Exception):
    """Raised if a step fails; the later ones need it."""


class PackageSteps:
    """The steps, one after the other; every row is written when it is known.

    Args:
        asked: Options.
        device: Device that judges.
    """

    def __init__(self, asked: argparse.Namespace, device: Device) -> None:
        self._asked, self._device = asked, device
        self._until = time.monotonic() + asked.limit_s
        self._state: Path = asked.state
        self._spec = write_spec(ROOT / "operators" / asked.operator, asked.kernel, self._state / "spec")
        self._environment = {**os.environ, "REEF_DATA_DIR": str(self._state / "data")}
        self.rows: list[Row] = []

    def run(self) -> None:
        """Take all steps.

        Raises:
            StepFailed: If one fails; its row says why.
        """
        self._step("judge", self._judge)
        search: str = self._step("search", self._search)["search"]
        self._step("export", lambda: self._export(search))
        self._step("install", self._install)
        self._step("tests", self._tests)
        self._step("model", self._model)

    def _step(self, name: str, take: Callable[[], Row]) -> Row:
        """Take a step and note it."""
        began = time.monotonic()
        try:
            row, failed = take(), ""
        except StepFailed as error:
            row, failed = {}, str(error)[-REASON_CHARS:]
        row = {"step": name, "wall_s": round(time.monotonic() - began, 1), **row}
        if failed:
            row["failed"] = failed
        self.rows.append(row)
        told = {"operator": self._asked.operator, "kernel": self._asked.kernel.name, "device": self._device.name}
        write(NAME, self.rows, self._asked.out, **told)
        print(json.dumps(row)[:1000], flush=True)
        if failed:
            raise StepFailed(f"{name}: {failed}")
        return row

    def _judge(self) -> Row:
        where = ("--device", self._device.name, "--json")
        said = self._json(*REEF, "judge", str(self._spec), str(self._asked.kernel), *where)
        (variant,) = said["variants"]
        kept = ("shape", "mid_us", "low_us", "high_us", "baselines_us", "copy_us", "pairs")
        shapes = [{name: shape.get(name) for name in kept} for shape in variant["shapes"]]
        return {
            "outcome": said["outcome"],
            "trust": said["trust"],
            "provenance": said["provenance"],
            "speedup": said["speedup"],
            "shapes": shapes,
            "checks": [check["name"] for check in variant["checks"]],
            "stages_s": said["stages_s"],
        }

    def _search(self) -> Row:
        where = ("--device", self._device.name, "--evaluations", "1", "--json")
        said = self._json(*REEF, "search", str(self._spec), *where)
        return {"search": said["search"]}

    def _export(self, search: str) -> Row:
        said = self._json(*REEF, "export", search, "--out", str(self._package), "--json")
        readme = (self._package / "README.md").read_text().splitlines()
        (metadata,) = self._package.glob("*/metadata.json")
        module = "\n".join(path.read_text() for path in metadata.parent.glob("elite_*.py"))
        return {
            "package": said["package"],
            "in_gluon": "gluon" in module,
            "stages_s": said["stages_s"],
            "refusals": said["refusals"],
            "note": said["note"],
            "said": [
                line for line in readme if "shapes that its search did not judge" in line or "launch" in line[:12]
            ],
        }

    def _install(self) -> Row:
        shutil.rmtree(self._site, ignore_errors=True)
        options = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", str(self._site))
        self._called(sys.executable, "-m", "pip", "install", *options, str(self._package))
        return {"files": sum(1 for path in self._site.rglob("*.py"))}

    def _tests(self) -> Row:
        alone = (sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull)
        tests = (f"--rootdir={self._package}", str(self._package / "tests"))
        pytest = find_spec("pytest")
        assert pytest is not None and pytest.origin is not None
        said = self._called(*alone, *tests, paths=(self._site, Path(pytest.origin).parents[1]))
        return {name: int(count) for count, name in re.findall(r"(\d+) (passed|skipped)", said)}

    def _model(self) -> Row:
        folder = self._state / "rows"
        on = ("--device", "cuda" if self._device.measures else "cpu")
        model = (sys.executable, "-m", "benchmarks.exported_model", str(self._site), "--out", str(folder))
        self._called(*model, *on, "--batches", *BATCHES, "--rounds", "10")
        said: Row = json.loads((folder / "model.json").read_text())
        return said.get("row", said)

    @property
    def _package(self) -> Path:
        return self._state / "package"

    @property
    def _site(self) -> Path:
        return self._state / "site"

    def _json(self, *command: str) -> Row:
        """Run a command that prints one JSON object."""
        said = self._called(*command)
        found: Row = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
        return found

    def _called(self, *command: str, paths: Sequence[Path] = ()) -> str:
        """Run a command and return its standard output.

        Raises:
            StepFailed: If it fails or takes too long.
        """
        environment = dict(self._environment)
        if paths:
            environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        left_s = max(LEAST_S, self._until - time.monotonic())
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=left_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"it took more than the {left_s:.0f} s that were left") from error
        if done.returncode != 0:
            raise StepFailed(f"status {done.returncode}: {done.stdout[-500:]} {done.stderr[-REASON_CHARS:]}")
        return done.stdout


def write_spec(operator: Path, kernel: Path, folder: Path) -> Path:
    """Write the spec of an operator whose only seed is a kernel, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (operator / "operator.toml").read_text()
    seeds = 'seeds = ["kernel.py"]\nbaselines = ["native"]'
    (folder / "operator.toml").write_text(re.sub(r"^seeds = \[[^\]]*\]", seeds, text, count=1, flags=re.MULTILINE))
    shutil.copy(operator / "reference.py", folder / "reference.py")
    shutil.copy(kernel, folder / "kernel.py")
    return folder


def main() -> None:
    """Take the steps within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="folder for the package and everything else")
    parser.add_argument("--operator", default="attention", help="name in the catalogue")
    parser.add_argument("--kernel", type=Path, default=KERNEL)
    parser.add_argument("--device", type=Device.parse, help="instead of the card's, such as model:sm_90")
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    asked.state, asked.out, asked.kernel = asked.state.resolve(), asked.out.resolve(), asked.kernel.resolve()
    steps = PackageSteps(asked, asked.device or device_of(0))
    try:
        steps.run()
    except StepFailed as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
