"""The tree dies with any isolation of the machine."""

import os
import sys
import time
import uuid
from pathlib import Path

import pytest

from workers.sandbox import SandboxEnding, SandboxLimits
from workers.sandbox.isolation import Isolation
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation

LIMITS = SandboxLimits(wall_s=20.0, cpu_s=20.0, memory_bytes=2**29, reply_bytes=2**16, processes=16)
WALLS = {
    "none": Isolation(frozenset()),
    "user": Isolation(frozenset({"user"})),
    "no pid": strongest_isolation().without("pid").without("proc"),
    "all": strongest_isolation(),
}


@pytest.fixture(params=WALLS)
def isolation(request):
    wanted = WALLS[request.param]
    if not wanted.layers <= strongest_isolation().layers:
        pytest.skip(f"this machine has only {strongest_isolation().label}")
    return wanted


def processes_named(mark):
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _text(path)]


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def test_orphans_in_sessions_of_their_own_are_killed(isolation):
    mark = f"orphan-{uuid.uuid4()}"

    def leave(_):
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execv(sys.executable, [mark, "-c", "import time; time.sleep(600)"])
                os._exit(0)
        time.sleep(0.2)
        return b"left"

    assert execute(isolation, leave, b"", LIMITS).reply == b"left"
    assert processes_named(mark) == []


def test_a_run_that_hangs_is_killed_with_its_children(isolation):
    mark = f"child-{uuid.uuid4()}"

    def hang(_):
        if os.fork() == 0:
            os.execv(sys.executable, [mark, "-c", "import time; time.sleep(600)"])
        time.sleep(600)

    result = execute(isolation, hang, b"", SandboxLimits(**{**LIMITS.__dict__, "wall_s": 1.0}))
    assert result.ending is SandboxEnding.TIMEOUT
    assert processes_named(mark) == []


def test_exit_status_is_told(isolation):
    assert "exit status 5" in execute(isolation, lambda _: os._exit(5), b"", LIMITS).detail
