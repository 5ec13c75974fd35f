"""Logs come in one form, from us and from libraries, and show no values of variables."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from service.logs import CHATTY, LOG_FILE, configure
from service.settings import Settings


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level, processors = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**processors)


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_json_holds_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_json=True))
    structlog.get_logger("service.x").info("search stored", search="s-1")
    logging.getLogger("some.library").warning("socket %s closed", 3)
    ours, theirs = written(capsys)
    assert (ours["event"], ours["search"], ours["level"], ours["logger"]) == (
        "search stored",
        "s-1",
        "info",
        "service.x",
    )
    assert ours["timestamp"].endswith("Z")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("socket 3 closed", "warning", "some.library")


def test_what_is_less_severe_stays_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings(log_json=True, log_level="warning"))
    structlog.get_logger().info("small talk")
    logging.getLogger("some.library").info("small talk")
    structlog.get_logger().error("it burns")
    assert [line["event"] for line in written(capsys)] == ["it burns"]


@pytest.mark.parametrize("library", CHATTY)
def test_who_does_not_debug_hears_no_chatter(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    for level in ("info", "debug"):
        configure(Settings(log_json=True, log_level=level))
        logging.getLogger(library).info("said at %s", level)
    assert [line["event"] for line in written(capsys)] == ["said at debug"]
    logging.getLogger(library).setLevel(logging.NOTSET)


@pytest.mark.parametrize("as_json", [True, False])
def test_traces_show_code_and_no_values(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    configure(Settings(log_json=as_json))
    password = "hunter" + "2"
    try:
        raise ValueError(f"{len(password)} characters are too many")
    except ValueError:
        structlog.get_logger().exception("tick failed")
    text = capsys.readouterr().err
    assert "tick failed" in text
    assert "test_logs.py" in text
    assert "7 characters are too many" in text
    assert "hunter2" not in text


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure(Settings())
    structlog.get_logger().warning("queue lost", jobs=3)
    (line,) = capsys.readouterr().err.splitlines()
    assert "queue lost" in line
    assert "jobs=3" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("as_json", [True, False])
def test_no_line_holds_a_token_or_a_password(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    configure(Settings(log_json=as_json, log_level="debug"))
    token = "reef_" + "A" * 71
    try:
        raise ValueError(f"redis://:hunter2@queue {token}")
    except ValueError:
        structlog.get_logger().exception("it burns", place=f"/{token}")
    logging.getLogger("some.library").warning("cannot reach %s", "postgresql://reef:hunter2@db")
    logging.getLogger("aiosqlite").debug("executing %s", "the source of a kernel")
    text = capsys.readouterr().err
    assert "it burns" in text and "cannot reach" in text
    assert not any(secret in text for secret in (token, "hunter2", "the source"))


def test_commands_keep_standard_error_for_one_line_per_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REEF_LOG_LEVEL", raising=False)
    configure(Settings(data_dir=tmp_path), quiet=True)
    structlog.get_logger().info("small talk")
    assert not (tmp_path / LOG_FILE).exists()
    structlog.get_logger().error("it burns")
    assert "it burns" in (tmp_path / LOG_FILE).read_text()
    configure(Settings(data_dir=tmp_path / "none"), quiet=True)
    structlog.get_logger().error("it burns")
    assert capsys.readouterr().err == ""
    configure(Settings(data_dir=tmp_path, log_level="error"), quiet=True)
    structlog.get_logger().error("it burns")
    assert "it burns" in capsys.readouterr().err
