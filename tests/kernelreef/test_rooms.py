"""Rooms are imported only if they are ours; what hides them is named."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelreef.rooms import HOME, ROOMS, hidden_by, leave_current_folder, namesakes, other_owners, room
from workers.safe_python import PYTHON

ASK = "from kernelreef.rooms import room; print(room('service.errors').__file__)"


def asked(folder: Path, code: str = ASK, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run code in a folder that is on the path, before ours."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path or str(folder), str(HOME)])}
    return subprocess.run((*PYTHON, "-c", code), cwd=folder, env=environment, capture_output=True, text=True)


def test_ours_are_found() -> None:
    assert all(hidden_by(name) is None for name in ROOMS)
    assert room("service.errors").__file__ == str(HOME / "service" / "errors.py")


@pytest.mark.parametrize("hiding", ["workers.py", "service/__init__.py"])
def test_what_hides_a_room_is_named(hiding: str, tmp_path: Path) -> None:
    file = tmp_path / hiding
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise SystemExit('run in place of ours')")
    done = asked(tmp_path)
    assert done.returncode == 1
    shown = file if file.name != "__init__.py" else file.parent
    name = Path(hiding).parts[0].removesuffix(".py")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"kernelreef.rooms.HiddenPackage: {shown} hides '{name}' of Kernelreef, which is in {HOME}")


def test_a_folder_that_is_no_package_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()
    assert asked(tmp_path).stdout == f"{HOME / 'service' / 'errors.py'}\n"


def test_the_current_folder_is_left(tmp_path: Path) -> None:
    code = (
        "import os, sys; from kernelreef.rooms import leave_current_folder; leave_current_folder(); "
        "print(sys.path[0], os.environ['PYTHONPATH'], os.environ['PYTHONSAFEPATH'])"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = asked(tmp_path, code, os.pathsep.join(["", ".", str(tmp_path), str(elsewhere)]))
    assert done.stdout == f"{elsewhere} {elsewhere}{os.pathsep}{HOME} 1\n", done.stderr


def test_but_not_where_ours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.chdir(HOME)
    leave_current_folder()
    assert sys.path[0] == ""


def test_namesakes_are_found_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "workers.py").touch()
    (tmp_path / "archive").mkdir()
    (tmp_path / "serviceable.py").touch()
    assert set(namesakes([tmp_path, HOME, tmp_path])) == {tmp_path / "workers.py", tmp_path / "archive"}


def test_another_distribution_that_owns_a_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert other_owners() == {}
    (tmp_path / "service.py").touch()
    info = tmp_path / "acme_service-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-service\nVersion: 1.0\n")
    (info / "RECORD").write_text("service.py,,\nacme_service-1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.metadata.version("acme-service") == "1.0"
    assert other_owners() == {"service": ["acme-service"]}
