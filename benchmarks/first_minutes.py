"""The first minutes of a new user: commands and seconds from a clone to a result, in an empty home and data folder.

    python -m benchmarks.first_minutes demo --out results            # git clone, make install, make demo
    python -m benchmarks.first_minutes join --out results            # a service, and a worker that joins it

Rows are appended to `first_minutes.jsonl`, and `first_minutes.json` is written from all of them. `join` plays both
sides on one machine over loopback: a service without workers of its own, tokens, a worker that joins and is trusted
over REST, and a search submitted over REST. `--device model:sm_90` tries `join` without a card. `as_run.json` has the
seconds to the first elite of `reef search` on a card.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from benchmarks.figures import FigureRows, LineLog, Row
from benchmarks.record import RESULTS
from kernelreef import Reef

ROOT = Path(__file__).resolve().parent.parent
REEF = (sys.executable, "-m", "kernelreef")
LONGEST_S = 600.0
"""Maximum seconds to wait for any step."""
LOOK_S = 0.25
SAID_CHARS = 2000
Known = TypeVar("Known")


class Steps:
    """Steps of one way, with the seconds since it began.

    Attributes:
        rows: Command and seconds of each step.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._begun = time.monotonic()

    def note(self, step: str) -> None:
        """Note that a step is done."""
        self.rows.append({"step": step, "at_s": round(time.monotonic() - self._begun, 1)})
        print(f"{self.rows[-1]['at_s']:7.1f} s  {step}", flush=True)

    def run(self, *command: str, folder: Path, environment: Mapping[str, str]) -> str:
        """Run a command, note it, and return what it printed.

        Raises:
            SystemExit: If it fails.
        """
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} exited with status {done.returncode}: {done.stderr[-SAID_CHARS:]}")
        self.note(" ".join(command).replace(" ".join(REEF), "reef").replace(str(ROOT), "URL"))
        return done.stdout

    def wait(self, step: str, look: Callable[[], Known | None]) -> Known:
        """Wait until a look finds something, and note the step.

        Raises:
            SystemExit: If it takes too long.
        """
        until = time.monotonic() + LONGEST_S
        while (found := look()) is None:
            if time.monotonic() > until:
                raise SystemExit(f"{step}: not after {LONGEST_S:g} s")
            time.sleep(LOOK_S)
        self.note(step)
        return found


def demo(folder: Path, device: str) -> Row:
    """Clone, install and run the demo; the card, if any, is the demo's own choice."""
    steps, environment = Steps(), _environment(folder)
    steps.run("git", "clone", "--quiet", str(ROOT), "clone", folder=folder, environment=environment)
    steps.run("make", "install", folder=folder / "clone", environment=environment)
    steps.run("make", "demo", folder=folder / "clone", environment=environment)
    return {"steps": steps.rows, "device": device}


def join(folder: Path, device: str) -> Row:
    """Serve without workers, let a worker join, trust it, and submit a search, until its first elite."""
    steps, port = Steps(), _free_port()
    environment = _environment(folder) | {"REEF_LOCAL_WORKERS": "0"}
    url = f"http://127.0.0.1:{port}"
    with _running([*REEF, "serve", "--port", str(port)], environment):
        steps.wait("reef serve", lambda: _answers(port))
        mine = _token(steps, folder, environment, "me", "admin", "read", "submit", "steer")
        theirs = _token(steps, folder, environment, "rig-3", "worker")
        place = ["--device", device] if device.startswith("model:") else ["--measure", "cuda:0"]
        traces = ["--trace", str(min(8, os.cpu_count() or 1))]
        worker = [*REEF, "worker", "--join", url, *traces, *place]
        with _running(worker, _environment(folder / "theirs") | {"REEF_TOKEN": theirs}), Reef(url, mine) as reef:
            named = steps.wait(
                f"reef worker --join URL {' '.join([*traces, *place])}, and trust over REST",
                lambda: _trust_all(reef, url, mine),
            )
            submitted = reef.submit("softmax", devices=(named,), evaluations=1000)
            steps.note(f"reef submit softmax --device {named}")
            best = steps.wait("first elite", lambda: _trust_all(reef, url, mine) and _best(reef, submitted.id))
    return {"steps": steps.rows, "device": named, "first_elite": best}


def _environment(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    return kept | {"HOME": str(folder), "REEF_DATA_DIR": str(folder / "data")}


@contextmanager
def _running(command: list[str], environment: Mapping[str, str]) -> Any:
    """Run a command in the background, and interrupt it at the end of the block."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _best(reef: Reef, search: str) -> float | None:
    best = reef.best(search)
    return None if best is None else best.speedup.mid


def _trust_all(reef: Reef, url: str, token: str) -> str | None:
    """Trust every worker that has joined. Returns the device of one that judges; None before there is one."""
    found = list(reef.workers())
    for each in found:
        if not each.get("trusted"):
            headers = {"Authorization": f"Bearer {token}"}
            answer = httpx.post(f"{url}/api/v1/workers/{each['id']}/trust", json={"trusted": True}, headers=headers)
            answer.raise_for_status()
    return next((str(each["device"]) for each in found if each["device"]), None)


def _token(steps: Steps, folder: Path, environment: Mapping[str, str], name: str, *scopes: str) -> str:
    wanted = [part for scope in scopes for part in ("--scope", scope)]
    said = steps.run(*REEF, "token", "create", name, *wanted, "--json", folder=folder, environment=environment)
    return str(json.loads(said)["token"])


def _answers(port: int) -> bool | None:
    with closing(socket.socket()) as tried:
        return True if tried.connect_ex(("127.0.0.1", port)) == 0 else None


def _free_port() -> int:
    with closing(socket.socket()) as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


WAYS = {"demo": demo, "join": join}


def main() -> None:
    """Go one way, and write its row."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("way", choices=WAYS)
    options.add_argument("--device", default="cuda")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    chosen = options.parse_args()
    figures = FigureRows(chosen.out, "first_minutes")
    with closing(LineLog(chosen.out / "first_minutes.jsonl")) as lines, tempfile.TemporaryDirectory() as folder:
        row = {"way": chosen.way, "load": round(os.getloadavg()[0], 1), **WAYS[chosen.way](Path(folder), chosen.device)}
        lines.add(row)
        for each in lines.rows:
            figures.add(each, each["way"])


if __name__ == "__main__":
    main()
