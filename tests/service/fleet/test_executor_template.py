"""The pool's side of the template: started once, replaced when it has died, without secrets, gone with its pool."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.fleet.executor_template import ExecutorTemplate

WAIT_S = 60.0
STAND_IN = """
import json, os, socket, sys
print(json.dumps(sorted(os.environ)), file=sys.stderr, flush=True)
socket.socket(fileno=0).recv(10)
"""
OWNER = """
import sys, time
from service.fleet.executor_template import ExecutorTemplate
template = ExecutorTemplate()
template.start()
print(template.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def template(tmp_path: Path) -> Iterator[ExecutorTemplate]:
    template = ExecutorTemplate(tmp_path / "log", (sys.executable, "-c", STAND_IN))
    yield template
    template.close()


def test_it_runs_once_and_ends_when_it_is_closed(template: ExecutorTemplate) -> None:
    assert template.pid is None
    first = template.start()
    process = psutil.Process(template.pid)
    assert template.start() == first and template.pid == process.pid
    template.close()
    template.close()
    assert template.pid is None and not process.is_running()


def test_one_that_died_is_replaced(template: ExecutorTemplate) -> None:
    template.start()
    first = template.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    psutil.Process(first).wait(WAIT_S)
    template.start()
    assert template.pid not in (None, first)


def test_it_gets_no_secret(template: ExecutorTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REEF_REDIS_URL", "REEF_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "secret")
    template.start()
    until = time.monotonic() + WAIT_S
    while not (tmp_path / "log").read_text() and time.monotonic() < until:
        time.sleep(0.01)
    known = (tmp_path / "log").read_text()
    assert '"PATH"' in known and "REEF_" not in known and "OPENAI" not in known


def test_it_ends_with_the_process_that_started_it(cold: None) -> None:
    with subprocess.Popen((sys.executable, "-c", OWNER), stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        process = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    process.wait(WAIT_S)
    assert not process.is_running()
