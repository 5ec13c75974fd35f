import os
import signal
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from workers import sandbox
from workers.errors import SandboxFailed
from workers.safe_python import PYTHON
from workers.sandbox import SandboxEnding, SandboxLimits
from workers.sandbox.command import CommandSequence, SandboxCommand
from workers.sandbox.forkserver import ForkRequest, ForkServer, fork_server
from workers.sandbox.isolation import Isolation
from workers.sandbox.survey import strongest_isolation

LIMITS = SandboxLimits(wall_s=30.0, cpu_s=20.0, memory_bytes=2**30, reply_bytes=2**20, processes=4)


@pytest.fixture
def server():
    with closing(ForkServer()) as mine:
        yield mine


def shell(program, isolation=None, limits=LIMITS):
    sequence = CommandSequence([SandboxCommand(["/bin/sh", "-c", program], {}, [])])
    return ForkRequest(isolation or strongest_isolation(), sequence, limits)


def children_of(process):
    tasks = Path(f"/proc/{process}/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text().split()}


def fork_servers():
    return {child for child in children_of(os.getpid()) if b"workers.sandbox" in read(f"/proc/{child}/cmdline")}


def read(path):
    return Path(path).read_bytes()


def test_an_errand_survives_being_told():
    errand = ForkRequest(
        Isolation(frozenset({"mount", "tmpfs"}), ("/root",)),
        CommandSequence([SandboxCommand(["/bin/ls", "-l"], {"in": b"\0\xff"}, ["out"])]),
        LIMITS,
    )
    assert ForkRequest.from_json(errand.to_json().encode()) == errand


def test_nothing_of_the_asking_process_is_in_the_fork(server):
    """It would be copied for every command: torch alone takes more than all of the fork server."""
    before = fork_servers()
    server.run(shell("exit 0"))
    (process,) = fork_servers() - before
    resident = int(read(f"/proc/{process}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident < 64 * 2**20


def test_it_imports_nothing_that_it_does_not_need():
    """Sixteen traces and their assemblers each start one: pydantic and our messages took four fifths of its start."""
    report = (
        "import sys, workers.sandbox.__main__ as _; print({*sys.modules} & {'pydantic', 'workers.protocol', 'torch'})"
    )
    done = subprocess.run((*PYTHON, "-c", report), capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_it_can_be_started_before_the_first_request(server):
    server.start()
    started = server._process
    server.start()
    assert server.run(shell("exit 0")).ending is SandboxEnding.RETURNED
    assert started is not None and server._process is started


def test_one_that_was_killed_is_replaced(server):
    before = fork_servers()
    server.run(shell("exit 0"))
    (first,) = fork_servers() - before
    os.kill(first, signal.SIGKILL)
    assert server.run(shell("exit 0")).ending is SandboxEnding.RETURNED
    assert first not in fork_servers()


def test_what_it_was_at_when_it_was_killed_is_done_again(server):
    before, found = fork_servers(), []
    asking = threading.Thread(target=lambda: found.append(server.run(shell("sleep 1"))))
    asking.start()
    until = time.monotonic() + 20
    while not (first := [each for each in fork_servers() - before if children_of(each)]) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(first[0], signal.SIGKILL)
    asking.join()
    assert [result.ending for result in found] == [SandboxEnding.RETURNED]


def test_walls_that_cannot_be_put_up_are_told(server, tmp_path):
    isolation = Isolation(strongest_isolation().layers, hidden=(str(tmp_path / "not-there"),))
    if "tmpfs" not in isolation.layers:
        pytest.skip("this machine has no temporary filesystem")
    with pytest.raises(SandboxFailed, match="tmpfs"):
        server.run(shell("exit 0", isolation))


def test_a_fork_of_a_process_that_has_one_gets_its_own():
    """Two that read one line's answers would get each other's."""
    fork_server().run(shell("exit 0"))
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(write, str(fork_server().run(shell("exit 0")).ending.value).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"returned"
    assert sandbox.run_command(["/bin/sh", "-c", "exit 3"], {}, [], LIMITS).status == 3
