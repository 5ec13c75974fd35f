"""A trace is made once in a run, and is the report on whichever job asked for it."""

import pytest

from tests import traces
from tests.traces import FOLDER, trace_once
from tests.workers.tracer.jobs import candidate, job
from workers import trace_job
from workers.protocol import Outcome


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A folder that nobody has traced into."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    traces._found.cache_clear()
    return tmp_path


def test_what_another_process_has_traced_is_read(alone) -> None:
    first = trace_once(job(candidate()))
    (file,) = alone.glob("*.json")
    written = file.stat().st_mtime_ns
    traces._found.cache_clear()  # Nothing is left here, as in another process.
    second = trace_once(job(candidate(), id="another", candidate="of another"))
    assert (second.job, second.candidate) == ("another", "of another")
    assert second.model_copy(update={"job": first.job, "candidate": first.candidate}) == first
    assert [file] == [*alone.glob("*.json")] and file.stat().st_mtime_ns == written


def test_whatever_decides_on_a_trace_is_told_apart(alone) -> None:
    asked = (job(candidate()), job(candidate(), target="sm_80"), job(candidate() + "\nMORE = 1\n"), job(None))
    reports = [trace_once(each) for each in asked]
    assert {report.outcome for report in reports} == {Outcome.CORRECT}
    assert len([*alone.glob("*.json")]) == len(asked)
    assert reports[0].variants == trace_job.trace(asked[0], "tester").variants


def test_where_there_is_no_run_each_process_traces_for_itself(alone, monkeypatch) -> None:
    monkeypatch.delenv(FOLDER)
    assert trace_once(job(candidate())).outcome is Outcome.CORRECT
    assert [*alone.iterdir()] == []
