"""`reef search` from an operator to the best kernel in a file, with real workers, and killed on the way."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archive.records import CandidateState
from archive.store import Store
from tests.journeys.small import small_operator

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")


def _environment(data: Path) -> dict[str, str]:
    return {**os.environ, "REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "2"}


def _reef(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*REEF, *arguments], env=_environment(data), cwd=data, capture_output=True, text=True, timeout=500
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"no end in sight: {_last_words(data)}") from error


def _last_words(data: Path) -> str:
    """What the workers said last: all that explains a search that stands still."""
    log = data / "workers.log"
    return log.read_text(errors="replace")[-4000:] if log.exists() else "the workers said nothing"


def test_a_search_ends_with_a_kernel_that_runs(cold: None, tmp_path: Path) -> None:
    done = _reef("search", "rmsnorm", "--evaluations", "3", "--json", data=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["evaluations"] == 3 and result["best"] >= 1.0
    assert "PREDICTED" in result["figures"]
    run = subprocess.run([sys.executable, result["kernel"]], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "largest error" in run.stdout
    best = _reef("best", "--json", data=tmp_path)
    assert json.loads(best.stdout)["search"] == result["search"]
    plan = _reef("plan", "show", json.loads(best.stdout)["candidate"], data=tmp_path)
    assert plan.returncode == 0 and "launch" in plan.stdout


async def test_a_killed_search_resumes_and_counts_nothing_twice(tmp_path: Path) -> None:
    arguments = [*REEF, "search", str(small_operator(tmp_path)), "--evaluations", "8", "--json"]
    first = subprocess.Popen(
        arguments, env=_environment(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert first.stderr is not None
    search = next(line.split()[1] for line in first.stderr if line.startswith("search "))
    _wait_for_candidates(tmp_path, 3)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    done = _reef("search", "--resume", search, "--json", data=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evaluations"] == 8
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}")
    candidates, counts = await store.candidates.list(search), await store.candidates.count(search)
    await store.close()
    assert (counts.evaluated, len(candidates)) == (8, 8 + counts.equal_plans)
    assert {item.state for item in candidates} == {CandidateState.JUDGED}


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for arguments in (
        ("search", "no_such_operator"),
        ("search", "rmsnorm", "--device", "model:sm_1"),
        ("search", "rmsnorm", "--device", "recorded:mi300x"),
        ("search", "rmsnorm", "--emitters", "magic"),
        ("search", "rmsnorm", "--evaluations", "0"),
        ("judge", "rmsnorm", str(tmp_path / "missing.py")),
    ):
        done = _reef(*arguments, data=tmp_path)
        assert done.returncode == 2, (arguments, done.stderr)
        assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) <= 2, done.stderr


def _wait_for_candidates(data: Path, count: int) -> None:
    for _ in range(600):
        with (
            contextlib.suppress(sqlite3.OperationalError),
            contextlib.closing(sqlite3.connect(data / "reef.db")) as base,
        ):
            if base.execute("select count(*) from candidates").fetchone()[0] >= count:
                return
        time.sleep(0.2)
    raise AssertionError(f"no candidates appeared: {_last_words(data)}")
