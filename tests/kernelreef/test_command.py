"""The `reef` command as it is installed."""

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

from kernelreef.rooms import HOME
from workers.safe_python import PYTHON


@pytest.mark.parametrize("start", [("-m", "kernelreef"), ("-c", "from kernelreef.command import main; main()")])
def test_files_of_the_current_folder_are_not_run(start: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("service", "workers", "redis", "secrets"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run in place of ours')")
    environment = {**os.environ, "PYTHONPATH": f":{HOME}"}
    command = (PYTHON[0], *start, "--version")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == f"kernelreef {importlib.metadata.version('kernelreef')}\n", done.stderr


def test_what_hides_the_service_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text("raise SystemExit('run in place of ours')")
    other = tmp_path / "other"
    other.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{HOME}"}
    done = subprocess.run((*PYTHON, "-m", "kernelreef"), cwd=other, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"reef: {tmp_path / 'service.py'} hides 'service' of Kernelreef")
