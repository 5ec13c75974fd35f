"""`serve` listens where it can, `migrate` makes an archive, `doctor` says what works, `worker` hands over."""

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.serve import _survey_findings, _unverified
from service.errors import InvalidInput
from service.fleet.devices import LocalCard
from service.settings import Settings
from tests.workers.sheets import A10, H100
from workers.protocol import Device
from workers.protocol.survey import CardSurvey, Survey
from workers.queue import DISMISSED


def test_an_address_that_is_not_ours_is_bad_input(tmp_path: Path) -> None:
    """192.0.2.1 is nobody's (RFC 5737)."""
    environment = {"REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "0"}
    result = CliRunner().invoke(app, ["serve", "--host", "192.0.2.1", "--port", "0"], env=environment)
    assert isinstance(result.exception, InvalidInput) and result.exception.field == "host"
    assert "cannot listen on 192.0.2.1" in str(result.exception)


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
    assert findings["executor trace"].startswith("ready; sandbox: ")
    assert findings["executor measure"].startswith("ready; sandbox: ")
    assert "triton" in findings["tools"] and "pid" in findings["sandbox"]
    assert "cards" in findings or "card cuda:0" in findings


def test_a_card_that_cannot_be_used_fails_with_the_remedy() -> None:
    found = Survey(jail="user", versions={}, no_card="not tried: a card needs the package cuda-bindings")
    cards = (LocalCard(0, "NVIDIA A10", Device.parse("a10")),)
    assert _survey_findings(found, cards)["cards"] == (
        "FAILED: here: cuda:0 is a10; not tried: a card needs the package cuda-bindings"
    )
    assert _survey_findings(found, ())["cards"] == found.no_card


async def test_a_class_that_nobody_has_run_is_unverified(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    cards = tuple(
        CardSurvey(
            number=number,
            device=sheet.device_class,
            sheet=sheet,
            driver="1",
            cuda="13",
            sharing="works",
            graphs="works",
        )
        for number, sheet in enumerate((H100, A10, A10))
    )
    found = await _unverified(settings, Survey(jail="user", versions={}, cards=cards))
    assert list(found) == ["figures on a10"] and found["figures on a10"].startswith("unverified: no controls")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--trace", "1", "--target", "sm_90"], "--redis"),
        (["--redis", "redis://x"], None),
        (["--redis", "redis://x", "--measure", "0"], "--measure"),
        (["--redis", "redis://x", "--join", "https://x", "--device", "model:sm_90"], "--join"),
        (["--join", "https://x", "--device", "model:sm_90"], "--token"),
    ],
)
def test_a_worker_that_cannot_work_says_why(
    arguments: list[str], field: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REEF_REDIS_URL", "REEF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(app, ["worker", *arguments])
    assert isinstance(result.exception, InvalidInput) and result.exception.field == field


def test_a_worker_that_the_service_does_not_want_ends_with_a_status_of_its_own() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        arguments = ["worker", "--join", f"http://127.0.0.1:{server.server_address[1]}", "--device", "model:sm_90"]
        result = CliRunner().invoke(app, arguments, env={"REEF_TOKEN": "reef_nobody"})
        server.shutdown()
    assert result.exit_code == DISMISSED


class Refusing(BaseHTTPRequestHandler):
    """Knows nobody."""

    def do_POST(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"detail": "nobody knows this token"}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""
