"""Knowledge at the command line, from a search to a file and back; and trajectories as files."""

import asyncio
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.records import SearchRecord
from service.analysis.trajectories import Trajectory
from service.cli import app
from service.cli.knowledge import lines_of
from service.errors import Conflict, InvalidInput, NotFound
from tests.archives import opened
from tests.service.lineages import SEED, Made, stored

Reef = Callable[..., Result]


@pytest.fixture
def reef(tmp_path: Path) -> Reef:
    return lambda *arguments: CliRunner().invoke(
        app, list(arguments), env={"REEF_DATA_DIR": str(tmp_path), "COLUMNS": "200"}
    )


async def _fill(folder: Path) -> SearchRecord:
    async with opened(folder) as store:
        return await stored(store, (SEED, Made("gained", 8.0, note="num_warps 8 -> 4"), Made("lost", 12.0)))


@pytest.fixture
def search(tmp_path: Path) -> SearchRecord:
    return asyncio.run(_fill(tmp_path))


def test_what_was_learned_is_listed_edited_and_handed_on(reef: Reef, search: SearchRecord, tmp_path: Path) -> None:
    for _ in range(2):
        assert json.loads(reef("knowledge", "extract", search.id, "--json").stdout) == {"entries": 1}
    (entry,) = json.loads(reef("knowledge", "list", "--json").stdout)
    assert (entry["move"], entry["successes"], entry["failures"]) == ("num_warps down", 1, 1)
    shown = reef("knowledge", "list").stdout
    assert "1 of 2" in shown and "1.25x predicted" in shown
    edited = reef("knowledge", "edit", entry["id"], "--sentence", "Mind the [red]warps.", "--state", "retired")
    assert "is retired: Mind the [red]warps." in edited.stdout
    for name in ("lessons.toml", "lessons.json"):
        assert reef("knowledge", "export", "--out", str(tmp_path / name)).exit_code == 0
        assert json.loads(reef("knowledge", "import", str(tmp_path / name), "--json").stdout) == {"entries": 1}
    (again,) = json.loads(reef("knowledge", "list", "--state", "retired", "--json").stdout)
    assert {**again, "updated_at": ""} == {
        **entry,
        **{"sentence": "Mind the [red]warps.", "state": "retired", "held": True, "updated_at": ""},
    }


def test_files_that_cannot_be_used_are_refused(reef: Reef, search: SearchRecord, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    for arguments in (
        ("import", str(tmp_path / "missing.toml")),
        ("import", str(tmp_path / "a.json")),
        ("import", str(tmp_path / "a.csv")),
        ("export", "--out", str(tmp_path / "a.csv")),
    ):
        assert isinstance(reef("knowledge", *arguments).exception, InvalidInput), arguments


def test_what_is_not_there_is_said(reef: Reef, tmp_path: Path) -> None:
    assert isinstance(reef("knowledge", "edit", "0" * 24, "--state", "retired").exception, NotFound)


def test_steps_are_written_as_lines_or_columns(reef: Reef, search: SearchRecord, tmp_path: Path) -> None:
    lines, columns = tmp_path / "steps.jsonl", tmp_path / "steps.parquet"
    done = reef("export", "--trajectories", search.id, "--out", str(lines), "--json")
    assert json.loads(done.stdout)["file"] == str(lines)
    records = [Trajectory.model_validate_json(line) for line in lines.read_text().splitlines()]
    assert [record.step for record in records] == [0, 1, 2]
    reef("export", "--trajectories", search.id, "--out", str(columns), "--rewards")
    rewards = importlib.import_module("pyarrow.parquet").read_table(columns).column("reward").to_pylist()
    assert rewards[0] == 0 and rewards[1] > 0 > rewards[2]
    reef("export", "--trajectories", search.id, "--out", str(lines), "--filter", "gains")
    assert len(lines.read_text().splitlines()) == 1
    assert not list(tmp_path.glob("*.part"))


def test_a_name_that_says_no_form_is_refused(reef: Reef, search: SearchRecord, tmp_path: Path) -> None:
    done = reef("export", "--trajectories", search.id, "--out", str(tmp_path / "steps.csv"))
    assert isinstance(done.exception, InvalidInput)
    assert not list(tmp_path.glob("steps*"))


async def test_lines_end_where_ndjson_says() -> None:
    async def chunks():
        for chunk in ('{"a": "x\u2028', 'y\x85"}\n{"b"', ": 1}\n"):
            yield chunk.encode()

    assert [json.loads(line) async for line in lines_of(chunks())] == [{"a": "x\u2028y\x85"}, {"b": 1}]


def test_a_running_search_teaches_nothing(reef: Reef, tmp_path: Path) -> None:
    running = asyncio.run(_running(tmp_path))
    assert isinstance(reef("knowledge", "extract", running.id).exception, Conflict)


async def _running(folder: Path) -> SearchRecord:
    async with opened(folder) as store:
        search = await stored(store, (SEED,))
        return await store.searches.set_state(search.id, search.state.RUNNING)
