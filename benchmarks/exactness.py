"""Exactness: a search that is killed again and again has to find exactly what an undisturbed one finds.

    python -m benchmarks.exactness --kills 100 --evaluations 200 --data DIR

On a recording, with one candidate on its way at a time, so that reports are applied in the order of proposals. `DIR`
holds the recordings of `recorded:h200` (`landscapes/h200/…`); without it those that are shipped are used. The process
group of `reef search`, workers and queue included, is killed at random moments, while it starts and between any two
verdicts, and the search resumed. What is compared: every candidate's ordinal, source, parents, verdict and objective,
and the elites. Moments are drawn so that all kills come before the search is through.
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
STARTING_S = 4.0
"""A kill that waits for no verdict comes so many seconds after a start at the latest; starting takes longer."""
BETWEEN_S = 0.3
"""A kill that waits for a verdict comes so many seconds after it at the latest; the next takes about as long."""
UNDISTURBED = 0.1
"""Share of the evaluations, the last ones, that no kill is drawn for: one may come a few verdicts late."""
LOOK_EVERY_S = 0.1


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
    """Describe the result of a folder's only search, without ids and times; None if there is none yet."""
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
            "finishing": search.finishing,
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


async def count(folder: Path) -> int:
    """Candidates that were judged in the one search of a folder."""
    store = await Store.open(f"sqlite+aiosqlite:///{folder / 'reef.db'}")
    try:
        found = [await store.candidates.count(search.id) for search in await store.searches.list(limit=1)]
        return sum(counts.evaluated for counts in found)
    finally:
        await store.close()


def seen(folder: Path) -> int:
    """The same from outside; none where there is no archive yet."""
    with contextlib.suppress(ArchiveError):
        return asyncio.run(count(folder)) if (folder / "reef.db").exists() else 0
    return 0


def run(
    folder: Path, operator: str, evaluations: int, data: Path | None, kills: int, rng: random.Random
) -> dict[str, Any]:
    """Run a search to its end, killed so often on the way; its history, with how many kills it really took.

    Raises:
        RuntimeError: If it ended otherwise than done.
    """
    search = [operator, "--device", DEVICE, "--evaluations", str(evaluations), "--seed", "1"]
    made = 0
    while (found := look(folder)) is None or found["state"] is not SearchState.DONE or found["finishing"]:
        judged = seen(folder)
        left = max(0, int(evaluations * (1 - UNDISTURBED)) - judged)
        more = rng.randint(0, 2 * left // (kills - made + 1)) if made < kills else evaluations
        process = start(folder, search if found is None else ["--resume", found["id"]], data)
        if made == kills or ends(process, folder, judged, more, rng):
            if process.wait():
                raise RuntimeError(f"reef search ended with status {process.returncode}")
        else:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            made += 1
            time.sleep(0.5)
    return {**found, "kills": made}


def ends(process: subprocess.Popen[bytes], folder: Path, judged: int, more: int, rng: random.Random) -> bool:
    """Wait for the moment of a kill, which is after `more` verdicts; whether the process ends before."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        while more and seen(folder) < judged + more:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
                return True
        process.wait(rng.uniform(0.0, BETWEEN_S if more else STARTING_S))
        return True
    return False


def main() -> None:
    """Compare, and write down what came of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--operator", default="rmsnorm")
    options.add_argument("--evaluations", type=int, default=200)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--data", type=Path, help="folder named kernelreef that holds landscapes/")
    options.add_argument("--out", type=Path, default=RESULTS)
    chosen = options.parse_args()
    told = (chosen.operator, chosen.evaluations, chosen.data)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        plain = run(Path(one), *told, 0, random.Random(0))
        begun = time.monotonic()
        killed = run(Path(two), *told, chosen.kills, random.Random(1))
    row = {
        "operator": chosen.operator,
        "evaluations": len(plain["candidates"]),
        "elites": len(plain["elites"]),
        "kills": killed["kills"],
        "killed_run_s": round(time.monotonic() - begun, 1),
        "equal": {name: plain[name] == killed[name] for name in ("candidates", "elites")},
    }
    print(row, flush=True)
    write("exactness", [row], chosen.out)
    if not all(row["equal"].values()):
        raise SystemExit("the two are not the same")
    if killed["kills"] < chosen.kills:
        raise SystemExit(f"the search was through after {killed['kills']} kills: give it more evaluations")


if __name__ == "__main__":
    main()
