"""`serve` stays on loopback, `migrate` makes an archive, `doctor` says what works, `worker` hands over."""

import json
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
    assert "triton" in findings["tools"] and "pid" in findings["jail"]
    assert "cards" in findings or "card cuda:0" in findings


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--trace", "1", "--target", "sm_90"], "--redis"),
        (["--redis", "redis://x"], None),
        (["--redis", "redis://x", "--measure", "0"], "--measure"),
    ],
)
def test_a_worker_that_cannot_work_says_why(
    arguments: list[str], field: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REEF_REDIS_URL", raising=False)
    result = CliRunner().invoke(app, ["worker", *arguments])
    assert isinstance(result.exception, BadInput) and result.exception.field == field
