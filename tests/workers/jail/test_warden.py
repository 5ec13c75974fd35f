import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from workers.errors import JailFailed
from workers.jail import Ending, Limits, inmate
from workers.jail.inmate import DETAIL_BYTES, HEADER, Status
from workers.jail.survey import strongest_walls
from workers.jail.walls import LAYERS, LayerMissing, Walls
from workers.jail.warden import execute


def test_a_layer_that_cannot_be_put_up_is_named(tmp_path):
    missing = tmp_path / "not-there"
    walls = Walls(strongest_walls().layers, hidden=(str(missing),))
    if "tmpfs" not in walls.layers:
        pytest.skip("this machine has no temporary filesystem")
    with pytest.raises(LayerMissing) as refused:
        execute(walls, lambda request: request, b"", Limits())
    assert refused.value.layer == "tmpfs"


def test_a_layer_that_only_root_has_is_named():
    if os.geteuid() == 0:
        pytest.skip("for users that are not root")
    with pytest.raises((LayerMissing, JailFailed)):
        execute(Walls(frozenset(LAYERS)), lambda request: request, b"", Limits())


def test_a_traceback_may_be_longer_than_a_reply():
    def fails(_):
        raise ValueError("x" * 2000)

    result = execute(strongest_walls(), fails, b"", Limits(reply_bytes=10))
    assert result.ending is Ending.RAISED
    assert result.detail.endswith("x" * 2000 + "\n")


def test_a_traceback_is_cut_at_its_beginning():
    def fails(_):
        raise ValueError("é" * DETAIL_BYTES + " the end")

    result = execute(strongest_walls(), fails, b"", Limits())
    assert result.ending is Ending.RAISED
    assert len(result.detail.encode()) <= DETAIL_BYTES + 8
    assert result.detail.endswith("the end\n")


@pytest.mark.parametrize(("status", "length"), [(Status.RETURNED, 11), (Status.RAISED, DETAIL_BYTES + 1)])
def test_no_frame_is_longer_than_its_kind_may_be(status, length):
    def forges(_):
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                inmate.write(descriptor, HEADER.pack(status, length) + bytes(length))
        os._exit(0)

    assert execute(strongest_walls(), forges, b"", Limits(reply_bytes=10)).ending is Ending.FLOODED


def test_a_run_leaves_nothing_behind():
    before = descriptors()
    execute(strongest_walls(), lambda _: os._exit(1), b"", Limits())
    execute(strongest_walls(), lambda request: request, b"", Limits())
    assert descriptors() == before


def test_its_directory_is_removed():
    reply = execute(strongest_walls(), lambda _: str(Path.cwd()).encode(), b"", Limits()).reply
    directory = Path(reply.decode())
    assert directory.parent == Path(tempfile.gettempdir())
    assert not directory.exists()


def descriptors():
    return {path.name: path.readlink() for path in Path("/proc/self/fd").iterdir() if path.exists()}
