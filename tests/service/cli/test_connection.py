"""Commands say the same of an archive whether they open it or ask a service that has it."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cli.connection import reach
from service.errors import Unavailable
from tests.service import records
from tests.service.cli.test_export import fill
from tests.service.serving import REEF, Served

COMMANDS = (
    ("best", records.SEARCH_ID, "--json"),
    ("plan", "show", records.CANDIDATE_ID, "--json"),
    ("plan", "show", records.CANDIDATE_ID),
    ("operators", "--json"),
    ("operators", "show", "double", "--json"),
    ("export", records.SEARCH_ID, "--out", "found.zip", "--json"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    asyncio.run(fill(folder))
    return folder


@pytest.fixture(scope="module")
def service(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    copy = tmp_path_factory.mktemp("copy") / "data"
    shutil.copytree(data, copy)
    with Served(copy) as service:
        yield service


def said(folder: Path, arguments: tuple[str, ...], **environment: str) -> str:
    known = {name: value for name, value in os.environ.items() if not name.startswith("REEF_")}
    done = subprocess.run(
        [*REEF, *arguments], env={**known, **environment}, cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_both_ways_say_the_same(arguments: tuple[str, ...], data: Path, service: Served, tmp_path: Path) -> None:
    here = said(tmp_path, arguments, REEF_DATA_DIR=str(data))
    exported = (tmp_path / "found.zip").read_bytes() if arguments[0] == "export" else b""
    away = said(tmp_path, (*arguments, "--url", service.url), REEF_DATA_DIR=str(tmp_path / "none"))
    assert here == away and here
    if "--json" in arguments:
        assert json.loads(here)
    assert exported == ((tmp_path / "found.zip").read_bytes() if exported else b"")
    assert not (tmp_path / "none").exists()


async def test_who_only_looks_starts_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_DATA_DIR", str(data))
    monkeypatch.delenv("REEF_URL", raising=False)
    async with reach(None, None) as reef:
        assert (await reef.search(records.SEARCH_ID)).operator == "double"
        with pytest.raises(Unavailable, match="queue"):
            await reef.progress(records.SEARCH_ID)
    assert not (data / "redis").exists()


async def test_the_address_may_come_from_the_environment(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_URL", service.url)
    async with reach(None, None) as reef:
        assert str(reef.wire._http.base_url).startswith(service.url)
        assert (await reef.search(records.SEARCH_ID)).operator == "double"


def test_a_search_beside_a_service_uses_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Served(data) as service:
        assert f"Kernelreef serves at {service.url}" in service.log and str(data) in service.log
        environment = {**os.environ, "REEF_DATA_DIR": str(data)}
        done = subprocess.run(
            [*REEF, "submit", "rmsnorm", "--evaluations", "1"], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0 and f"using the service at {service.url}" in done.stderr, done.stderr
        service.stop()
        service.start()
        assert "continues 1 search;" in service.log
