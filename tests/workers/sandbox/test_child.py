import json
import os
import struct

from workers.sandbox.child import HEADER, FrameStatus, close_all_but, setup_failure, write
from workers.sandbox.isolation import IsolationLayerMissing


def test_a_frame_is_a_status_and_a_length():
    assert HEADER.pack(FrameStatus.RETURNED, 5) == b"\x01" + struct.pack(">Q", 5)


def test_what_kept_it_from_settling_is_told_with_the_layer():
    assert json.loads(setup_failure(IsolationLayerMissing("pid", OSError("no")))) == ["pid", "pid: no"]
    assert json.loads(setup_failure(OSError("no"))) == ["", "no"]


def test_all_is_written_though_the_pipe_is_small():
    read, end = os.pipe()
    data = os.urandom(200_000)
    if os.fork() == 0:
        write(end, data)
        os._exit(0)
    os.close(end)
    with os.fdopen(read, "rb") as stream:
        assert stream.read() == data
    os.wait()


def test_only_what_is_kept_stays_open():
    read, end = os.pipe()
    child = os.fork()
    if child == 0:
        kept, spare = os.dup(end), os.dup(end)
        close_all_but(kept)
        os.write(kept, b"kept")
        try:
            os.write(spare, b"spare")
        except OSError:
            os.write(kept, b" only")
        os._exit(0)
    os.close(end)
    with os.fdopen(read, "rb") as stream:
        assert stream.read() == b"kept only"
    os.waitpid(child, 0)
