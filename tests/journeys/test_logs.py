"""The logs of a real run, searched for one candidate: it is found in every process that had a hand in it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store
from tests.journeys.small import small_operator

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")
COURSE = ("job sent", "job taken", "job begun", "report handed in", "report applied")
"""What is said of each job, in this order: service, worker, bench, worker, service."""


def lines(text: str) -> list[dict[str, Any]]:
    """The log lines that are objects; libraries may say other things on the same stream."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


async def test_a_candidate_is_followed_through_all_processes(tmp_path: Path) -> None:
    environment = {**os.environ, "REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "1"}
    environment |= {"REEF_LOG_JSON": "true", "REEF_LOG_LEVEL": "debug"}
    command = [*REEF, "search", str(small_operator(tmp_path)), "--evaluations", "2", "--json"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    search = json.loads(done.stdout)["search"]
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}")
    last, *_ = await store.candidates.list(search)
    await store.close()
    said = lines(done.stderr) + lines((tmp_path / "workers.log").read_text(errors="replace"))
    about = [line for line in said if line.get("candidate") == last.id]
    assert {line["search"] for line in about} == {search}
    for job in (f"{last.id}:trace", f"{last.id}:0:model:sm_90:measure"):
        mine = {line["event"]: line for line in about if line.get("job") == job}
        assert set(mine) >= set(COURSE), f"{job}: {sorted(mine)}"
        # Who hands something over says so afterwards: the other side may be quicker.
        times = [mine[event]["timestamp"] for event in COURSE if event not in ("job sent", "report handed in")]
        assert times == sorted(times), "one clock, one course"
        workers = {mine[event]["worker"] for event in COURSE if "worker" in mine[event]}
        assert len(workers) == 1, "the worker is the same in its own words and in the service's"
