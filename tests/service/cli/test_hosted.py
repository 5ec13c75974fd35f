"""`serve` stays on loopback, `migrate` makes an archive, `doctor` says what works, `worker` hands over."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.errors import BadInput


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", "::"])
def test_nothing_but_loopback_is_served(host: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--host", host, "--port", "0"])
    assert isinstance(result.exception, BadInput) and result.exception.field == "host"


def test_migrate_makes_an_archive(tmp_path: Path) -> None:
    for _ in range(2):
        result = CliRunner().invoke(app, ["migrate"], env={"REEF_DATA_DIR": str(tmp_path)})
        assert result.exit_code == 0, result.output
    assert (tmp_path / "reef.db").stat().st_size > 0


def test_the_doctor_finds_both_benches_ready(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"], env={"REEF_DATA_DIR": str(tmp_path)})
    findings = json.loads(result.stdout)
    assert result.exit_code == 0, findings
    assert findings["archive"] == "answers" and findings["queue"] == "the embedded server starts"
    assert findings["bench trace"].startswith("ready; jail: ")
    assert findings["bench measure"].startswith("ready; jail: ")


def test_worker_hands_over_to_the_worker_itself() -> None:
    command = [sys.executable, "-c", "from service.cli import main; main()", "worker", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "--device" in done.stdout
