"""Searches as run: the path of candidates, the parts of the end, and the row that an interrupted benchmark leaves."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.as_run import (
    INTERRUPTED,
    StoredReport,
    StoredSearch,
    ending,
    in_flight,
    path_of,
    read_times,
    waits_for_assembly,
)
from tests.service import records

EPOCH = 1_000_000.0


def _line(at: float, event: str, **more: str) -> str:
    return json.dumps({"timestamp": datetime.fromtimestamp(EPOCH + at, UTC).isoformat(), "event": event, **more})


def _job(job: str, taken: float, done: float) -> list[str]:
    return [_line(taken, "job taken", job=job), _line(done, "report handed in", job=job)]


def _stored(job: str, kind: str, at: float) -> StoredReport:
    return StoredReport(EPOCH + at, records.report({}, job=job, kind=kind))


def _search(stored: dict[str, float], proposed: dict[str, float]) -> StoredSearch:
    reports = [_stored(job, "measure", at) for job, at in stored.items()]
    ids = {name: EPOCH + at for name, at in proposed.items()}
    return StoredSearch(EPOCH, EPOCH + 99, "done", "", (), tuple(reports), (), (), (), ids)


def test_what_candidates_wait_for_is_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "workers.log"
    lines = [_line(2, "executor ready", kind="trace"), "cut sh", _line(3, "executor ready", kind="measure")]
    lines += _job("a:trace", 4, 5) + _job("a:0:h200:measure", 6, 10)
    lines += _job("b:trace", 12, 16) + _job("b:0:h200:measure", 17, 19)
    lines += _job("b:0:h200:confirm:" + "e" * 64, 20, 23)
    log.write_text("\n".join(lines))
    times = read_times(log)
    path = path_of(times, EPOCH)
    assert path["start_s"] == {
        **{"trace ready": 2, "measure ready": 3, "trace taken": 4},
        **{"trace done": 5, "measure taken": 6, "measure done": 10},
    }
    assert path["job_s"] == {"trace": 2.5, "measure": 3, "confirm": 3} and path["to_measure_s"] == 1
    search = _search({"a:0:h200:measure": 10, "b:0:h200:measure": 20}, {"a": 1, "b": 11})
    # From the first verdict, after 10 s, to the last after 20: one candidate.
    parts = {"to trace": 0.1, "trace": 0.4, "to measure": 0.1, "measure": 0.2, "to archive": 0.1}
    assert {name: share for name, share in in_flight(times, search).items() if share} == parts
    assert in_flight(times, _search({"a:0:h200:measure": 10}, {})) == {}


def test_examinations_are_no_part_of_the_time_until_a_search_is_done_and_settled() -> None:
    search = _search({"a:0:h200:measure": 10, "b:0:h200:measure": 101}, {})
    late = (_stored("b:0:h200:confirm:", "confirm", 112), _stored("b:0:h200:final", "final", 150))
    done = replace(search, ended=EPOCH + 108, reports=(*search.reports, *late))
    parts = {"to done": 8, "to settled": 4, "to examined": 38, "to exit": 3}
    assert ending(done, EPOCH + 100, EPOCH + 153) == parts
    assert ending(replace(done, ended=None), EPOCH + 100, EPOCH + 153) == {}
    unexamined = replace(done, reports=done.reports[:-1])
    assert ending(unexamined, EPOCH + 100, EPOCH + 120) == parts | {"to examined": 0, "to exit": 8}


def test_a_few_measurements_that_wait_long_show() -> None:
    waited = [0.0] * 8 + [1.0, 3.0]
    reports = [records.report({}).model_copy(update={"stages_s": {"assemble": seconds}}) for seconds in waited]
    assert waits_for_assembly(reports) == {"mean": 0.4, "p50": 0, "p80": 1, "p90": 3, "longest": 3}
    assert waits_for_assembly([records.report({})])["longest"] == 0


def test_a_benchmark_that_is_ended_leaves_the_row_of_what_is_known(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.as_run", "softmax", "rmsnorm", "--device", "model:sm_90"]
    with subprocess.Popen([*command, "--out", str(tmp_path)]) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "as_run.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)  # `timeout` sends it twice.
        assert process.wait(60) == 0
    (row,) = json.loads((tmp_path / "as_run.json").read_text())["rows"]
    assert row["operator"] == "softmax" and row["cut"] == INTERRUPTED
