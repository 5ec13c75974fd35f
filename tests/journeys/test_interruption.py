"""Searches that are interrupted, killed and extended: no command spends anything on a search that it does not name."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.journeys.small import small_operator

pytestmark = pytest.mark.timeout(600)
REEF = (sys.executable, "-c", "from service.cli import main; main()")


def _environment(data: Path) -> dict[str, str]:
    return {**os.environ, "REEF_DATA_DIR": str(data), "REEF_LOCAL_WORKERS": "2"}


def _begin(*arguments: str, data: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a search in a session of its own, as a terminal does; return it with the search's id."""
    process = subprocess.Popen(
        [*REEF, "search", *arguments],
        env=_environment(data),
        cwd=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    return process, next(line.split()[1] for line in process.stderr if line.startswith("search "))


def _run(*arguments: str, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REEF, *arguments], env=_environment(data), cwd=data, capture_output=True, text=True, timeout=300
    )


def _rows(data: Path, statement: str, *values: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(data / "reef.db")) as base:
        return base.execute(statement, values).fetchall()


def _counts(data: Path, search: str) -> int:
    return len(_rows(data, "select id from candidates where search = ?", search))


def _state(data: Path, search: str) -> object:
    return _rows(data, "select state from searches where id = ?", search)[0][0]


def _until(data: Path, search: str, count: int) -> None:
    for _ in range(600):
        with contextlib.suppress(sqlite3.OperationalError):
            if _counts(data, search) >= count:
                return
        time.sleep(0.2)
    raise AssertionError((data / "workers.log").read_text(errors="replace")[-4000:])


def test_ctrl_c_pauses_a_search_and_no_other_command_takes_it_up(tmp_path: Path) -> None:
    operator = str(small_operator(tmp_path))
    killed, lost = _begin(operator, "--evaluations", "300", "--seed", "1", data=tmp_path)
    _until(tmp_path, lost, 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    before = _counts(tmp_path, lost)
    assert _state(tmp_path, lost) == "running", "a kill leaves no time to pause it"

    process, search = _begin(operator, "--evaluations", "300", data=tmp_path)
    _until(tmp_path, search, 4)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said, said
    assert f"reef search --resume {search}" in said and f"reef stop {search}" in said
    assert _state(tmp_path, search) == "paused"
    assert (_counts(tmp_path, lost), _state(tmp_path, lost)) == (before, "running")

    resumed, same = _begin("--resume", lost, data=tmp_path)
    _until(tmp_path, lost, before + 2)
    os.killpg(resumed.pid, signal.SIGTERM)
    resumed.communicate(timeout=60)
    assert (resumed.returncode, same, _state(tmp_path, lost)) == (130, lost, "paused")
    shown = _run("watch", lost, data=tmp_path)
    assert shown.returncode == 0 and f"reef search --resume {lost}" in shown.stderr


def test_a_done_search_is_extended(tmp_path: Path) -> None:
    operator = str(small_operator(tmp_path))
    first = json.loads(_run("search", operator, "--evaluations", "3", "--json", data=tmp_path).stdout)
    assert (first["state"], first["evaluations"]) == ("done", 3)
    same = _run("search", "--resume", first["search"], "--json", data=tmp_path)
    assert same.returncode == 0 and json.loads(same.stdout)["evaluations"] == 3
    assert "has used its 3 evaluations" in same.stderr
    longer = _run("search", "--resume", first["search"], "--evaluations", "6", "--json", data=tmp_path)
    result = json.loads(longer.stdout)
    assert (result["search"], result["state"], result["evaluations"]) == (first["search"], "done", 6)
    assert result["best"] >= first["best"]
    assert re.search(r"^search ", longer.stderr, re.MULTILINE)
