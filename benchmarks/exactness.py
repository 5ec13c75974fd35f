"""Whether a search that is killed again and again finds exactly what it finds when nobody kills it.

    python -m benchmarks.exactness --kills 100 --evaluations 200 --data DIR

On a recording, with one candidate on its way at a time, so that reports are applied in the order of proposals. `DIR`
holds the recordings of `recorded:h200` (`landscapes/h200/…`); without it those that are shipped are used. The process
group of `reef search`, workers and queue included, is killed at random moments and the search resumed. What is
compared: every candidate's ordinal, source, parents, verdict and objective, and the elites.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from archive.errors import ArchiveError
from archive.records import SearchState
from archive.store import Store
from benchmarks.record import RESULTS, write

REEF = (sys.executable, "-c", "from service.cli import main; main()")
DEVICE = "recorded:h200"
LATEST_KILL_S = 12.0
"""A kill comes so many seconds after a start at the latest; starting takes a few of them."""


def start(folder: Path, arguments: list[str], data: Path | None) -> subprocess.Popen[bytes]:
    """Start `reef search` in a process group of its own."""
    told = {"REEF_DATA_DIR": str(folder), "REEF_LOCAL_WORKERS": "1", "REEF_IN_FLIGHT_PER_SEARCH": "1"}
    if data is not None:
        told["XDG_CACHE_HOME"] = str(data.parent)
    return subprocess.Popen(
        [*REEF, "search", *arguments, "--out", str(folder / "out")],
        env={**os.environ, **told},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def history(folder: Path) -> dict[str, Any] | None:
    """What the one search of a folder came to, in words that two runs can share; None before there is one."""
    store = await Store.open(f"sqlite+aiosqlite:///{folder / 'reef.db'}")
    try:
        searches = await store.searches.list(limit=2)
        if not searches:
            return None
        (search,) = searches
        candidates = {item.id: item for item in await store.candidates.list(search.id, limit=1_000_000)}
        elites = await store.elites.list(search.id, DEVICE, search.axes_version)
        rows = [
            [c.ordinal, c.emitter, c.digest, sorted(candidates[p].ordinal for p in c.parents), c.outcome, c.objective]
            for c in candidates.values()
        ]
        return {
            "id": search.id,
            "state": search.state,
            "candidates": sorted(rows, key=lambda row: row[0]),
            "elites": sorted([e.cell, candidates[e.candidate].ordinal, e.objective, e.revision] for e in elites),
        }
    finally:
        await store.close()


def look(folder: Path) -> dict[str, Any] | None:
    """The same from outside; None where there is no archive yet."""
    with contextlib.suppress(ArchiveError):
        return asyncio.run(history(folder)) if (folder / "reef.db").exists() else None
    return None


def run(folder: Path, search: list[str], data: Path | None, kills: int, rng: random.Random) -> dict[str, Any]:
    """Run a search to its end, killed so often on the way; its history.

    Raises:
        RuntimeError: If it ended otherwise than done, or before all kills were made.
    """
    made = 0
    while True:
        found = look(folder)
        if found is not None and found["state"] is SearchState.DONE:
            return {**found, "kills": made}
        process = start(folder, search if found is None else ["--resume", found["id"]], data)
        try:
            process.wait(rng.uniform(0.5, LATEST_KILL_S) if made < kills else None)
            if process.returncode:
                raise RuntimeError(f"reef search ended with status {process.returncode}")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            made += 1
            time.sleep(0.5)


def main() -> None:
    """Compare, and write down what came of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--operator", default="rmsnorm")
    options.add_argument("--evaluations", type=int, default=200)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--data", type=Path, help="folder named kernelreef that holds landscapes/")
    options.add_argument("--out", type=Path, default=RESULTS)
    chosen = options.parse_args()
    search = [chosen.operator, "--device", DEVICE, "--evaluations", str(chosen.evaluations), "--seed", "1"]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        plain = run(Path(one), search, chosen.data, 0, random.Random(0))
        killed = run(Path(two), search, chosen.data, chosen.kills, random.Random(1))
    same = {name: plain[name] == killed[name] for name in ("candidates", "elites")}
    row = {"evaluations": len(plain["candidates"]), "kills": killed["kills"], "equal": same}
    print(row, flush=True)
    write("exactness", [row], chosen.out)
    if not all(same.values()):
        raise SystemExit("the two are not the same")


if __name__ == "__main__":
    main()
