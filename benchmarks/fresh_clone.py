"""Seconds of the README's commands on a fresh clone with an empty home folder, one row a step.

    python -m benchmarks.fresh_clone

The clone is of the last commit; what is not committed is not there. A step that fails is a row with its exit status.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.record import write

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("install", "demo", "check", "test")
LAST_LINES = 12


def run(step: str, clone: Path, home: Path) -> dict[str, Any]:
    """Run one `make` target; a row."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": os.environ.get("LANG", "C.UTF-8")}
    started = time.monotonic()
    done = subprocess.run(
        ["make", step], cwd=clone, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    seconds = round(time.monotonic() - started, 1)
    said = (done.stdout + done.stderr).strip().splitlines()
    print(f"make {step}: exit status {done.returncode} after {seconds} s")
    if done.returncode:
        print("\n".join(said[-LAST_LINES:]))
    return {"step": f"make {step}", "exit_status": done.returncode, "seconds": seconds, "last_line": said[-1][:200]}


def main() -> None:
    """Clone, run all steps, write the figures."""
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder) / "kernelreef", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        rows = [run(step, clone, home) for step in STEPS]
    print(write("fresh_clone", rows))


if __name__ == "__main__":
    main()
