"""Lines about a job carry its ids, as JSON where that is asked for, from the severity that is asked for."""

import json
from collections.abc import Iterator

import pytest
import structlog

from tests.workers.queue.samples import trace_job
from workers.logs import JSON, LEVEL, configure, ids_of


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.contextvars.clear_contextvars()
    structlog.configure(**before)


def test_lines_are_objects_with_ids(capsys: pytest.CaptureFixture[str]) -> None:
    configure({JSON: "true", LEVEL: "debug"}, worker="w")
    job = trace_job("job-1")
    structlog.get_logger("x").debug("job begun", **ids_of(job))
    said = json.loads(capsys.readouterr().err)
    assert (said["event"], said["level"], said["worker"]) == ("job begun", "debug", "w")
    assert {name: said[name] for name in ("job", "search", "candidate")} == ids_of(job)
    assert said["job"] == "job-1"


@pytest.mark.parametrize("level", [None, "loud"])
def test_without_a_word_it_is_text_from_info_on(capsys: pytest.CaptureFixture[str], level: str | None) -> None:
    configure({} if level is None else {LEVEL: level})
    structlog.get_logger("x").debug("quiet")
    structlog.get_logger("x").info("heard", job="j")
    said = capsys.readouterr()
    assert "heard" in said.err and "job=j" in said.err and "quiet" not in said.err and said.out == ""


@pytest.mark.parametrize("as_json", ["", "1"])
def test_a_line_on_an_exception_says_where_and_shows_no_values(
    capsys: pytest.CaptureFixture[str], as_json: str
) -> None:
    configure({JSON: as_json})
    try:
        refuse("opensesame" * 2)
    except ValueError:
        structlog.get_logger().exception("it failed")
    said = capsys.readouterr().err
    assert "in refuse" in said and "ValueError: no" in said
    assert "opensesameopensesame" not in said


def refuse(secret: str) -> None:
    raise ValueError("no" if secret else "yes")
