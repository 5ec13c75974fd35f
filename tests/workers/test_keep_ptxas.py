import hashlib
import zipfile

import pytest

from workers.keep_ptxas import keep
from workers.options import parse

BIN = "triton/backends/nvidia/bin/"


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "triton-9.9.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(BIN + "ptxas", b"old")
        archive.writestr(BIN + "ptxas-blackwell", b"new")
        archive.writestr(BIN + "nvdisasm", b"other")
        archive.writestr("../" + BIN + "ptxas", b"outside")
    return path


def test_builds_are_kept_by_their_digest(wheel, tmp_path, capsys):
    for _ in range(2):
        assert keep([str(wheel)], tmp_path / "kept") == 0
    kept = {path.relative_to(tmp_path / "kept"): path for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    old, new = hashlib.sha256(b"old").hexdigest(), hashlib.sha256(b"new").hexdigest()
    assert sorted(map(str, kept)) == sorted([f"{old}/ptxas", f"{new}/ptxas-blackwell"])
    assert all(path.stat().st_mode & 0o111 for path in kept.values())
    assert f"ptxas {old}" in capsys.readouterr().out


def test_builds_of_an_installed_triton_are_kept(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(BIN + "ptxas", tmp_path / "site")
    assert keep([str(tmp_path / "site")], tmp_path / "kept") == 0
    assert [path.name for path in (tmp_path / "kept").rglob("ptxas*") if path.is_file()] == ["ptxas"]


def test_a_wheel_without_a_build_is_refused(tmp_path, capsys):
    path = tmp_path / "other.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other/file", b"")
    assert keep([str(path)], tmp_path) == 1
    assert "has no ptxas" in capsys.readouterr().err
    assert keep([str(tmp_path / "none.whl")], tmp_path) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_the_command_takes_releases():
    assert parse(["keep-ptxas", "3.9.0", "x.whl"], "").releases == ["3.9.0", "x.whl"]
