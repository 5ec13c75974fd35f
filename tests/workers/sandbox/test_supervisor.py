import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from workers.errors import SandboxFailed
from workers.sandbox import SandboxEnding, SandboxLimits, child
from workers.sandbox.child import DETAIL_BYTES, HEADER, FrameStatus
from workers.sandbox.isolation import LAYERS, Isolation, IsolationLayerMissing
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation


def test_a_layer_that_cannot_be_put_up_is_named(tmp_path):
    missing = tmp_path / "not-there"
    isolation = Isolation(strongest_isolation().layers, hidden=(str(missing),))
    if "tmpfs" not in isolation.layers:
        pytest.skip("this machine has no temporary filesystem")
    with pytest.raises(IsolationLayerMissing) as refused:
        execute(isolation, lambda request: request, b"", SandboxLimits())
    assert refused.value.layer == "tmpfs"


def test_a_layer_that_only_root_has_is_named():
    if os.geteuid() == 0:
        pytest.skip("for users that are not root")
    with pytest.raises((IsolationLayerMissing, SandboxFailed)):
        execute(Isolation(frozenset(LAYERS)), lambda request: request, b"", SandboxLimits())


def test_a_traceback_may_be_longer_than_a_reply():
    def fails(_):
        raise ValueError("x" * 2000)

    result = execute(strongest_isolation(), fails, b"", SandboxLimits(reply_bytes=10))
    assert result.ending is SandboxEnding.RAISED
    assert result.detail.endswith("x" * 2000 + "\n")


def test_a_traceback_is_cut_at_its_beginning():
    def fails(_):
        raise ValueError("é" * DETAIL_BYTES + " the end")

    result = execute(strongest_isolation(), fails, b"", SandboxLimits())
    assert result.ending is SandboxEnding.RAISED
    assert len(result.detail.encode()) <= DETAIL_BYTES + 8
    assert result.detail.endswith("the end\n")


@pytest.mark.parametrize(("status", "length"), [(FrameStatus.RETURNED, 11), (FrameStatus.RAISED, DETAIL_BYTES + 1)])
def test_no_frame_is_longer_than_its_kind_may_be(status, length):
    def forges(_):
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                child.write(descriptor, HEADER.pack(status, length) + bytes(length))
        os._exit(0)

    assert execute(strongest_isolation(), forges, b"", SandboxLimits(reply_bytes=10)).ending is SandboxEnding.FLOODED


def test_a_run_leaves_nothing_behind():
    before = descriptors()
    execute(strongest_isolation(), lambda _: os._exit(1), b"", SandboxLimits())
    execute(strongest_isolation(), lambda request: request, b"", SandboxLimits())
    assert descriptors() == before


def test_its_directory_is_removed():
    reply = execute(strongest_isolation(), lambda _: str(Path.cwd()).encode(), b"", SandboxLimits()).reply
    directory = Path(reply.decode())
    assert directory.parent == Path(tempfile.gettempdir())
    assert not directory.exists()


def descriptors():
    return {path.name: path.readlink() for path in Path("/proc/self/fd").iterdir() if path.exists()}
