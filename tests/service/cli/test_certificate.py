"""`reef certificate` and `reef verify`: files in and out, and exit codes."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.records import NewReport
from archive.store import Store
from service.certificates.document import read, sealed
from service.cli import app
from service.cli import certificate as cli_certificate
from service.errors import InvalidInput, NotFound
from tests.archives import archive_in
from tests.service import records
from tests.service.certificates.evidence import certificate, measured
from tests.service.cli.test_export import fill

ROOT = Path(__file__).parents[3]
Reef = Callable[..., Result]


@pytest.fixture
def reef(tmp_path: Path) -> Reef:
    return lambda *arguments: CliRunner().invoke(
        app, list(arguments), env={"REEF_DATA_DIR": str(tmp_path), "COLUMNS": "200"}
    )


@pytest.fixture
def judged(tmp_path: Path) -> None:
    """An archive whose elite has a report."""

    async def filled() -> None:
        await fill(tmp_path)
        store = await Store.open(archive_in(tmp_path))
        judged = records.bundle_from(records.SEED).identity
        report = records.report(
            {"N=1024": 10.0}, search=records.SEARCH_ID, candidate=records.CANDIDATE_ID, bundle=judged
        )
        about = {"operator": records.OPERATOR.digest, "device": records.DEVICE, "outcome": "correct", "reason": ""}
        await store.reports.save(
            NewReport(
                job=report.job,
                search=report.search,
                candidate=report.candidate,
                variant=0,
                bundle=report.bundle,
                kind="measure",
                protocol_version=1,
                provenance="predicted",
                document=report.model_dump_json(),
                **about,
            )
        )
        await store.close()

    asyncio.run(filled())


@pytest.fixture
def benches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Benches that answer at once."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    command = (sys.executable, str(ROOT / "tests/service/stand_in_bench.py"), str(tmp_path / "notes"))
    monkeypatch.setattr(cli_certificate, "COMMAND", command)


def test_a_certificate_is_written_or_printed(reef: Reef, judged: None, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    said = reef("certificate", records.CANDIDATE_ID, "--out", str(path))
    found = read(path.read_bytes())
    assert found.digest == found.certificate.id and found.digest in said.stdout and "PREDICTED" in said.stdout
    printed = reef("certificate", records.CANDIDATE_ID, "--no-source", "--device", records.DEVICE, "--variant", "0")
    assert read(printed.stdout.encode()).certificate.source is None
    nowhere = reef("certificate", records.CANDIDATE_ID, "--out", str(tmp_path / "no" / "where.json"))
    assert isinstance(nowhere.exception, InvalidInput)
    assert isinstance(reef("certificate", records.SEARCH_ID).exception, NotFound)


def test_what_holds_ends_with_nothing_to_complain_about(reef: Reef, benches: None, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(certificate().text())
    done = reef("verify", str(path))
    assert done.exit_code == 0 and "it holds on this machine" in done.stdout, done.stdout
    assert done.stdout.count("repeated") == 11 and "10 us, predicted" in done.stdout
    told = json.loads(reef("verify", str(path), "--json").stdout)
    assert (told["holds"], told["device"], told["certificate"]) == (True, records.DEVICE, certificate().id)
    assert [step["found"] for step in told["steps"]] == ["repeated"] * 11
    assert told["untried"] == []


def test_what_was_not_repeated_does_not_look_like_success(reef: Reef, benches: None, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(certificate(measured()).text())
    done = reef("verify", str(path))
    assert done.exit_code == 5 and "it holds" not in done.stdout
    assert "NOT everything was repeated: times, baselines" in done.stdout
    told = json.loads(reef("verify", str(path), "--json").stdout)
    assert told["holds"] and told["untried"] == ["times", "baselines"]


def test_what_differs_is_said_and_so_is_what_cannot_be_tried(reef: Reef, benches: None, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(certificate().text().replace("PREDICTED", "MEASURED", 1))
    changed = reef("verify", str(path))
    assert changed.exit_code == 4 and "does NOT hold" in changed.stdout and "document was changed" in changed.stdout
    elsewhere = sealed(certificate(measured()).model_copy(update={"source": None}))
    path.write_text(elsewhere.text())
    untried = reef("verify", str(path))
    assert untried.exit_code == 4 and "could not be repeated here" in untried.stdout


@pytest.mark.parametrize("text", [None, "{}", "no JSON"])
def test_what_is_no_certificate_is_bad_input(reef: Reef, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "certificate.json"
    if text is not None:
        path.write_text(text)
    assert isinstance(reef("verify", str(path)).exception, InvalidInput)


def test_a_strangers_words_steer_no_terminal(reef: Reef, benches: None, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    hostile = certificate().model_copy(
        update={"title": "\x1b[2J[/nothing][red]title", "graphs": {"[/x]\x07": "0" * 64}}
    )
    path.write_text(sealed(hostile).text())
    said = reef("verify", str(path)).stdout
    assert said.startswith("?[2J[/nothing][red]title\n") and "\x1b" not in said and "\x07" not in said
    forged = certificate().model_copy(update={"id": "[/bold]\x1b", "bundle_digest": "0" * 64})
    path.write_text(forged.text())
    assert "[/bold]?" in reef("verify", str(path)).stdout
