import ctypes
import os
import threading

import pytest

from workers.sandbox import SandboxLimits
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation

LIMITS = SandboxLimits(wall_s=20.0, cpu_s=10.0, memory_bytes=2**29, reply_bytes=2**16, processes=1)
libc = ctypes.CDLL(None, use_errno=True)

pytestmark = pytest.mark.skipif("seccomp" not in strongest_isolation().layers, reason="no filter on system calls here")


def inside(function, processes=1):
    return execute(strongest_isolation(), function, b"", SandboxLimits(**{**LIMITS.__dict__, "processes": processes}))


@pytest.mark.parametrize("call", ["unshare", "ptrace", "chroot"])
def test_calls_on_the_list_fail(call):
    def attempt(_):
        result = getattr(libc, call)(0, 0, 0, 0)
        return f"{result} {os.strerror(ctypes.get_errno())}".encode()

    assert inside(attempt).reply == b"-1 Operation not permitted"


def test_threads_still_start():
    def attempt(_):
        said = []
        thread = threading.Thread(target=lambda: said.append(b"threaded"))
        thread.start()
        thread.join()
        return said[0]

    assert inside(attempt).reply == b"threaded"


def test_processes_start_only_where_they_may():
    def attempt(_):
        process = os.fork()
        if process == 0:
            os._exit(0)
        return str(os.waitpid(process, 0)[1]).encode()

    assert inside(attempt, processes=4).reply == b"0"
    assert "BlockingIOError" in inside(attempt).detail


def test_a_process_may_abort_itself():
    assert "SIG" in inside(lambda _: os.abort()).detail
