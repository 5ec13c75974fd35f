"""Every way that a run can end, with real bombs."""

import ctypes
import os
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from workers import sandbox
from workers.sandbox import SandboxEnding, SandboxLimits
from workers.sandbox.child import HEADER, FrameStatus

LIMITS = SandboxLimits(wall_s=30.0, cpu_s=20.0, memory_bytes=2**29, reply_bytes=2**16, processes=1)


def run(function, request=b"", **limits):
    return sandbox.run(function, request, SandboxLimits(**{**LIMITS.__dict__, **limits}))


def reply_pipe() -> int:
    """The only pipe that a child holds besides its standard streams."""
    return next(number for number in range(3, 1024) if is_other_pipe(number))


def is_other_pipe(number: int) -> bool:
    try:
        found = os.fstat(number)
        return stat.S_ISFIFO(found.st_mode) and found.st_ino != os.fstat(2).st_ino
    except OSError:
        return False


def processes_named(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and mark in (path / "cmdline").read_text():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def wait_until_gone(mark: str, within_s: float = 20.0) -> bool:
    until = time.monotonic() + within_s
    while processes_named(mark) and time.monotonic() < until:
        time.sleep(0.02)
    return not processes_named(mark)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """A pool of two threads that torch has used in this process."""
    torch.set_num_threads(2)
    torch.ones(512, 512) @ torch.ones(512, 512)
    yield
    torch.set_num_threads(1)


def test_a_product_does_not_wait_for_threads_that_the_fork_left_behind(two_threads: None):
    result = run(lambda _: str(float((torch.ones(512, 512) @ torch.ones(512, 512)).sum())).encode())
    assert (result.ending, result.reply) == (SandboxEnding.RETURNED, b"134217728.0"), result.detail


def test_returns_what_the_function_returns():
    result = run(lambda request: request[::-1], b"abc")
    assert (result.ending, result.reply, result.detail) == (SandboxEnding.RETURNED, b"cba", "")
    assert result.wall_s > 0


def test_the_fork_sees_what_is_loaded_here():
    loaded = object()
    assert run(lambda _: str(id(loaded)).encode()).reply == str(id(loaded)).encode()


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("a bad value"), "ValueError: a bad value"), (SystemExit(0), "SystemExit: 0")]
)
def test_an_exception_is_told_with_its_traceback(error, said):
    def fail(_):
        raise error

    result = run(fail)
    assert result.ending is SandboxEnding.RAISED
    assert said in result.detail
    assert "in fail" in result.detail


def test_exit_without_a_reply_is_a_crash():
    result = run(lambda _: os._exit(3))
    assert result.ending is SandboxEnding.CRASHED
    assert "exit status 3" in result.detail


@pytest.mark.parametrize("crash", [lambda _: ctypes.string_at(0), lambda _: os.abort()])
def test_a_fatal_signal_is_named_with_the_place(crash):
    result = run(crash)
    assert result.ending is SandboxEnding.CRASHED
    assert result.detail.startswith("ended by SIG")
    assert "test_sandbox.py" in result.detail


def spin(_):
    while True:
        pass


def test_an_endless_loop_ends_at_the_wall_limit_and_says_where():
    result = run(spin, wall_s=1.0)
    assert result.ending is SandboxEnding.TIMEOUT
    assert "did not end within 1 s" in result.detail
    assert "in spin" in result.detail


def test_an_endless_loop_ends_at_the_processor_limit():
    result = run(spin, cpu_s=1.0)
    assert result.ending is SandboxEnding.TIMEOUT
    assert "processor time" in result.detail


def test_a_sleeper_ends_at_the_wall_limit():
    result = run(lambda _: time.sleep(600), wall_s=0.3)
    assert result.ending is SandboxEnding.TIMEOUT
    assert result.reason == result.detail.splitlines()[0] and "0.3 s" in result.reason


def test_the_reason_of_an_error_is_its_last_line():
    result = run(lambda _: 1 // 0)
    assert result.ending is SandboxEnding.RAISED
    assert "ZeroDivisionError" in result.reason and len(result.detail.splitlines()) > 1


def test_a_memory_bomb_ends_at_its_limit():
    def hoard(_):
        hoarded = []
        while True:
            hoarded.append(bytearray(2**22))

    result = run(hoard)
    assert result.ending is SandboxEnding.MEMORY
    assert str(LIMITS.memory_bytes) in result.detail


def test_a_fork_bomb_starts_nothing():
    if "seccomp" not in sandbox.probe():
        pytest.skip("this machine has no filter on system calls")

    def fork(_):
        while True:
            os.fork()

    result = run(fork)
    assert result.ending is SandboxEnding.RAISED
    assert "BlockingIOError" in result.detail


@pytest.mark.slow
def test_a_fork_bomb_where_processes_are_allowed_ends_with_its_sandbox():
    def fork(_):
        while True:
            try:
                os.fork()
            except OSError:
                continue

    assert run(fork, processes=8, wall_s=1.0).ending is SandboxEnding.TIMEOUT
    assert run(lambda request: request, b"still works").reply == b"still works"


def test_what_daemons_it_leaves_dies_with_it():
    mark = f"orphan-{uuid.uuid4()}"

    def leave(_):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [mark, "-c", "import time; time.sleep(600)"])
            os._exit(0)
        time.sleep(0.2)
        return b"left"

    assert run(leave, processes=8).reply == b"left"
    assert processes_named(mark) == []


@pytest.mark.parametrize(
    "start",
    [
        "def work(_):\n    os.execv(sys.executable, [sys.argv[1], '-c', 'import time; time.sleep(600)'])\n"
        "sandbox.run(work, b'', sandbox.SandboxLimits(processes=8))\n",
        "argv = [sys.executable, '-c', 'import time; time.sleep(600)', sys.argv[1]]\n"
        "sandbox.run_command(argv, {}, [], sandbox.SandboxLimits(processes=8))\n",
    ],
    ids=["function", "command"],
)
def test_a_killed_parent_takes_its_sandboxes_along(start):
    mark = f"child-{uuid.uuid4()}"
    program = f"import os, sys\nfrom workers import sandbox\n{start}"
    root = Path(sandbox.__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", program, mark], cwd=root)
    while len(processes_named(mark)) < 2:  # The parent itself, and the child after exec.
        assert parent.poll() is None
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    assert wait_until_gone(mark)


def test_a_long_reply_is_not_read():
    result = run(lambda _: bytes(LIMITS.reply_bytes + 1))
    assert (result.ending, result.reply) == (SandboxEnding.FLOODED, b"")


def test_the_longest_reply_is_read():
    assert len(run(lambda _: bytes(LIMITS.reply_bytes)).reply) == LIMITS.reply_bytes


def test_a_forged_length_is_not_believed():
    result = run(lambda _: os.write(reply_pipe(), HEADER.pack(FrameStatus.RETURNED, 2**60)) and time.sleep(600))
    assert result.ending is SandboxEnding.FLOODED


def test_a_forged_frame_is_only_a_reply():
    def forge(_):
        os.write(reply_pipe(), HEADER.pack(FrameStatus.RETURNED, 6) + b"forged")
        os._exit(0)

    assert run(forge).reply == b"forged"


def test_half_a_frame_is_a_crash():
    def forge(_):
        os.write(reply_pipe(), struct.pack(">B", FrameStatus.RETURNED))
        os._exit(0)

    assert run(forge).ending is SandboxEnding.CRASHED


def test_files_outside_cannot_be_deleted(tmp_path):
    if "readonly" not in sandbox.probe():
        pytest.skip("this machine has no read-only view")
    kept = tmp_path / "kept"
    kept.write_text("still here")
    result = run(lambda _: kept.unlink())
    assert "Read-only file system" in result.detail or "Permission denied" in result.detail
    assert kept.read_text() == "still here"


def test_its_own_directory_is_writable_and_gone_afterwards():
    def write(_):
        Path("scratch").write_text("x")
        return str(Path.cwd()).encode()

    directory = Path(run(write).reply.decode())
    assert directory.name.startswith("reef-sandbox-")
    assert not directory.exists()


def test_the_environment_holds_the_private_directory_and_no_device(monkeypatch):
    monkeypatch.setenv("REEF_SECRET", "open sesame")
    result = run(lambda _: "\n".join(os.environ).encode())
    assert set(result.reply.decode().split()) == {"HOME", "TMPDIR", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}


def test_inherited_descriptors_are_closed(tmp_path):
    with (tmp_path / "open").open("w") as handle:
        result = run(partial(_write_to, handle.fileno()))
    assert "Bad file descriptor" in result.detail


def _write_to(descriptor, _):
    os.write(descriptor, b"x")


def test_there_is_no_network():
    if "seccomp" not in sandbox.probe() and "net" not in sandbox.probe():
        pytest.skip("this machine can not cut the network")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = server.getsockname()
        result = run(lambda _: socket.create_connection(address, timeout=5))
    assert result.ending is SandboxEnding.RAISED


def test_nothing_can_be_signalled():
    if "seccomp" not in sandbox.probe():
        pytest.skip("this machine has no filter on system calls")
    here = os.getpid()
    assert "PermissionError" in run(lambda _: os.kill(here, 9)).detail


def test_runs_do_not_disturb_each_other():
    replies = {}

    def one(number):
        replies[number] = run(lambda request: request * 2, str(number).encode()).reply

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == {number: str(number).encode() * 2 for number in range(4)}


def test_probe_names_layers_in_order():
    layers = sandbox.probe().split("+")
    assert layers == [layer for layer in sandbox.isolation.LAYERS if layer in layers] or layers == ["none"]
