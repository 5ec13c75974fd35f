import os
import tempfile
from pathlib import Path

import pytest

from workers.errors import JailFailed
from workers.jail import Limits
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
