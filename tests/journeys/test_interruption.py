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

from service.generation.supply import LANDING_S
from tests.journeys.small import small_operator

pytestmark = pytest.mark.timeout(600)
OF_SMALL = "not possible"
"""Standing of the small operator's finalists: it has no ranges to draw shapes from, and there is no sanitizer."""
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


def _document(data: Path, *arguments: str) -> dict[str, object]:
    done = _run(*arguments, "--json", data=data)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _finals(data: Path, search: str) -> list[tuple[object, ...]]:
    return _rows(data, "select job, count(*) from reports where kind = 'final' and search = ? group by job", search)


def test_ctrl_c_leaves_finalists_unexamined_and_resuming_examines_them(tmp_path: Path) -> None:
    operator = str(small_operator(tmp_path))
    process, search = _begin(operator, "--evaluations", "3", "--out", str(tmp_path / "out"), data=tmp_path)
    assert process.stderr is not None
    heard = next(line for line in process.stderr if line.startswith("The search is done: examining finalists"))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in said, "its result is there"
    assert "Ctrl-C leaves that for later" in heard and "finalists are examined" in said
    assert f"reef search --resume {search}" in said and _state(tmp_path, search) == "done"
    (kernel,) = (tmp_path / "out").iterdir()
    best = _document(tmp_path, "best", search)
    assert isinstance(best["finalist"], dict) and best["finalist"]["standing"] in ("unexamined", OF_SMALL)
    if best["finalist"]["standing"] == "unexamined":  # The leader may be examined before the search is done.
        assert "# Examination as a finalist: unexamined." in kernel.read_text()

    resumed = _run("search", "--resume", search, "--json", data=tmp_path)
    found = json.loads(resumed.stdout)
    assert resumed.returncode == 0 and "has used its" not in resumed.stderr
    assert (found["state"], found["finishing"], found["evaluations"]) == ("done", False, 3)
    assert found["examined"] == found["finalists"] > 0
    assert [count for _, count in _finals(tmp_path, search)] == [1] * found["finalists"]
    best = _document(tmp_path, "best", search)
    assert isinstance(best["finalist"], dict) and best["finalist"]["standing"] == OF_SMALL


def test_a_kill_while_finalists_are_examined_loses_nothing_and_a_service_examines_them(tmp_path: Path) -> None:
    operator = str(small_operator(tmp_path))
    process, search = _begin(operator, "--evaluations", "3", data=tmp_path)
    assert process.stderr is not None
    next(line for line in process.stderr if line.startswith("The search is done: examining finalists"))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert _state(tmp_path, search) == "done"
    before = _counts(tmp_path, search)
    other = _run("search", operator, "--evaluations", "2", "--seed", "9", "--json", data=tmp_path)
    assert other.returncode == 0
    serving = subprocess.Popen(
        [*REEF, "serve", "--port", "0"],
        env=_environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert serving.stderr is not None
    address = next(line for line in serving.stderr if "serves at" in line).split()[3]
    try:
        assert "continues 1 search" in next(line for line in serving.stderr if "data folder" in line)
        for _ in range(300):
            if not _rows(tmp_path, "select id from searches where finishing"):
                break
            time.sleep(0.2)
        shown = _document(tmp_path, "best", search, "--url", address)
        assert isinstance(shown["finalist"], dict) and shown["finalist"]["standing"] == OF_SMALL
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        serving.communicate(timeout=60)
    assert {count for _, count in _finals(tmp_path, search)} == {1}
    assert (_counts(tmp_path, search), _state(tmp_path, search)) == (before, "done")


def test_seconds_count_from_the_first_verdict_without_pauses_and_over_a_kill(tmp_path: Path) -> None:
    operator = str(small_operator(tmp_path))
    process, search = _begin(operator, "--evaluations", "100000", "--stop", "seconds=12", data=tmp_path)
    _until(tmp_path, search, 4)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert _state(tmp_path, search) == "paused"
    ran = "select running_ms, starting_ms from counters where search = ?"
    paused = _rows(tmp_path, ran, search)
    time.sleep(12)
    killed, _ = _begin("--resume", search, data=tmp_path)
    _until(tmp_path, search, _counts(tmp_path, search) + 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert _state(tmp_path, search) == "running", "the pause of twelve seconds did not count"
    assert _rows(tmp_path, ran, search) >= paused
    found = _document(tmp_path, "search", "--resume", search)
    assert found["state"] == "done" and "since its first verdict (stop rule: 12 s)" in str(found["reason"])
    ((running_ms, _),) = _rows(tmp_path, ran, search)
    assert isinstance(running_ms, int) and 12_000 <= running_ms < 12_000 + 1000 * (LANDING_S + 8)
