"""`archive dump`, `load` and `prune` on the database that the settings name."""

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from archive.errors import RecordConflict, UnreadableDump
from archive.records import NewSearch, SearchState
from archive.store import Store, migrate
from archive.tables import metadata
from service.cli import app
from service.errors import InvalidInput
from tests.archive.fullness import fill_empty_tables, rows_by_table
from tests.archives import archive_in
from tests.postgres import PostgresServer
from tests.service import records


def reef(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["archive", *arguments], env={"REEF_DATA_DIR": str(data), "COLUMNS": "200"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose archive holds one search that has ended."""
    folder = tmp_path / "data"
    asyncio.run(_fill(folder))
    return folder


async def _fill(folder: Path) -> None:
    store = await Store.open(archive_in(folder))
    operator, template = records.OPERATOR, records.search()
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    await store.searches.create(NewSearch(**{item.name: getattr(template, item.name) for item in fields(NewSearch)}))
    await store.searches.set_state("search-1", SearchState.DONE)
    await store.close()


def test_a_copy_fills_another_archive(data: Path, tmp_path: Path) -> None:
    written = reef(data, "dump", str(tmp_path / "copy.gz"), "--json")
    assert written.exit_code == 0
    assert json.loads(written.output)["searches"] == 1
    read = reef(tmp_path / "other", "load", str(tmp_path / "copy.gz"))
    assert read.exit_code == 0
    assert "searches" in read.output
    listed = reef(tmp_path / "other", "prune", "--days", "0", "--json")
    assert json.loads(listed.output) == {"expired": ["search-1"]}


@pytest.mark.parametrize("way", ["to PostgreSQL", "to SQLite"])
def test_every_table_goes_from_one_database_to_the_other(tmp_path: Path, postgres: PostgresServer, way: str) -> None:
    file, server = f"sqlite+aiosqlite:///{tmp_path / 'one.db'}", postgres.url(postgres.create_database())
    source, target = (file, server) if way == "to PostgreSQL" else (server, file)
    for url in (source, target):
        asyncio.run(migrate(url))
    fill_empty_tables(source)
    written, read = (
        json.loads(CliRunner().invoke(app, ["archive", *words, "--json"], env={"REEF_DATABASE_URL": url}).stdout)
        for url, words in ((source, ("dump", str(tmp_path / "copy.gz"))), (target, ("load", str(tmp_path / "copy.gz"))))
    )
    assert written == read == dict.fromkeys(metadata.tables, 1)
    assert rows_by_table(target) == rows_by_table(source)


def test_nothing_is_removed_before_somebody_says_yes(data: Path) -> None:
    assert "search-1" in reef(data, "prune", "--days", "0").output
    assert json.loads(reef(data, "prune", "--days", "0", "--yes", "--json").output)["searches"] == 1
    assert json.loads(reef(data, "prune", "--days", "0", "--json").output) == {"expired": []}


def test_what_is_young_enough_is_not_listed(data: Path) -> None:
    assert json.loads(reef(data, "prune", "--days", "1", "--json").output) == {"expired": []}


def test_files_that_cannot_be_used_are_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(InvalidInput, match="taken"):
        raise reef(data, "dump", str(tmp_path / "taken")).exception
    with pytest.raises(InvalidInput, match="missing"):
        raise reef(data, "load", str(tmp_path / "missing")).exception
    with pytest.raises(UnreadableDump):
        raise reef(tmp_path / "other", "load", str(tmp_path / "taken")).exception


def test_an_archive_that_holds_something_is_not_overwritten(data: Path, tmp_path: Path) -> None:
    reef(data, "dump", str(tmp_path / "copy.gz"))
    with pytest.raises(RecordConflict, match="not empty"):
        raise reef(data, "load", str(tmp_path / "copy.gz")).exception


def test_old_entries_of_the_audit_log_go_and_that_is_one(data: Path) -> None:
    assert json.loads(reef(data, "prune-audit", "--days", "30", "--json").output) == {"audit": 0}
    said = CliRunner().invoke(app, ["audit", "--json"], env={"REEF_DATA_DIR": str(data)})
    assert "reef archive prune-audit" in said.output and "0 entries of before" in said.output
    assert reef(data, "prune-audit", "--days", "29").exit_code == 2, "a month stays"


def test_a_search_is_placed_on_other_axes(data: Path) -> None:
    done = reef(data, "rebin", "search-1", "--axes", "num_warps,occupancy", "--json")
    assert json.loads(done.output) == {"axes_version": 2, "offers": 0, "unplaced": 0, "cells": {"model:sm_90": 0}}
    assert "0 offers repeated, axes version 3" in reef(data, "rebin", "search-1").output


@pytest.mark.parametrize(
    "arguments, field", [(("search-1", "--axes", "num_warps,colour"), "axes"), (("search-2",), "SEARCH")]
)
def test_what_cannot_be_placed_anew_is_said(data: Path, arguments: tuple[str, ...], field: str) -> None:
    error = reef(data, "rebin", *arguments).exception
    assert isinstance(error, InvalidInput) and error.field == field
