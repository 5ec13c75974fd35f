import os
import tempfile
from pathlib import Path

import pytest

from workers.sandbox import SandboxLimits
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation


def test_walls_are_surveyed_once():
    assert strongest_isolation() is strongest_isolation()


def test_nobody_is_for_root_only():
    assert os.geteuid() == 0 or "nobody" not in strongest_isolation().layers


def test_the_code_can_be_imported_inside():
    def imports(_):
        import workers.targets  # noqa: PLC0415

        return workers.targets.TARGETS["sm_90"].card.encode()

    assert execute(strongest_isolation(), imports, b"", SandboxLimits()).reply == b"NVIDIA H200"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.parametrize("name", ["code", "a-name-that-makes-every-message-long-" * 6])
def test_nobody_is_given_up_where_the_code_is_private(tmp_path, monkeypatch, name):
    if "tmpfs" not in strongest_isolation().layers:
        pytest.skip("this machine has no temporary filesystem")
    private = tmp_path / name / name
    private.mkdir(parents=True)
    private.parent.chmod(0o700)
    monkeypatch.syspath_prepend(str(private))
    assert "nobody" not in strongest_isolation.__wrapped__().layers


def test_what_killed_parents_left_is_removed_a_day_later(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, young = tmp_path / "reef-sandbox-old", tmp_path / "reef-sandbox-young"
    for path in (old, young):
        path.mkdir()
    os.utime(old, (0, 0))
    strongest_isolation.__wrapped__()
    assert (old.exists(), young.exists()) == (False, True)


def test_hidden_directories_are_empty_inside():
    for path in strongest_isolation().hidden:
        listing = execute(
            strongest_isolation(), lambda _, path=path: repr(list(Path(path).iterdir())).encode(), b"", SandboxLimits()
        )
        assert listing.reply == b"[]"
