"""The path of candidates through a search as run: seconds until the first verdict, and candidates in flight by part."""

import json
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.as_run import StoredReport, StoredSearch, in_flight, path_of, read_times
from tests.service import records

EPOCH = 1_000_000.0


def _line(at: float, event: str, **more: str) -> str:
    return json.dumps({"timestamp": datetime.fromtimestamp(EPOCH + at, UTC).isoformat(), "event": event, **more})


def _job(job: str, taken: float, done: float) -> list[str]:
    return [_line(taken, "job taken", job=job), _line(done, "report handed in", job=job)]


def _search(stored: dict[str, float], proposed: dict[str, float]) -> StoredSearch:
    reports = [StoredReport(EPOCH + at, records.report({}, job=job, kind="measure")) for job, at in stored.items()]
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
