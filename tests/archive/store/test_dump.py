"""An archive goes into a file and comes out the same, whatever database either end is."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, make_url, select

from archive.column_types import now
from archive.errors import DatabaseUnavailable, RecordConflict, UnreadableDump
from archive.records import SearchState
from archive.store import Store, migrate
from archive.store.engine import Database
from archive.tables import metadata
from tests.archive.samples import (
    new_candidate,
    new_report,
    new_variant,
    offer,
    stored_candidate,
    stored_search,
    traced,
)
from tests.postgres import empty_database


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an archive is loaded into, not migrated yet."""
    return empty_database(request, tmp_path / "other.db")


async def filled(store: Store) -> None:
    """A search with everything that a candidate leaves behind, its text as nasty as a candidate can make it."""
    search = await stored_search(store)
    candidate = await stored_candidate(store, search.id, source='"\\\n\t€ \u2028 </script>', note="über")
    await store.candidates.save_trace(candidate, traced(new_variant(document='{"ptx": "€"}')))
    await store.reports.save(new_report(search.id, candidate))
    await store.elites.offer(offer(search.id, candidate))
    await store.candidates.judge(candidate, "correct", "", None, 1.0 / 3.0)
    await store.searches.set_state(search.id, SearchState.RUNNING)


def rows(url: str) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    parsed = make_url(url)
    driver = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}[parsed.get_backend_name()]
    engine = create_engine(parsed.set(drivername=driver), poolclass=NullPool)
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            found = connection.execute(select(table).order_by(*table.primary_key.columns))
            yield table.name, [tuple(row) for row in found]


async def opened(url: str) -> Store:
    await migrate(url)
    return await Store.open(url)


async def test_everything_comes_out_as_it_went_in(
    store: Store, database_url: str, other_url: str, tmp_path: Path
) -> None:
    await filled(store)
    written = await store.copies.dump(tmp_path / "copy.gz")
    other = await opened(other_url)
    assert await other.copies.load(tmp_path / "copy.gz") == written
    assert written["candidates"] == written["elites"] == written["reports"] == 1
    assert dict(rows(other_url)) == dict(rows(database_url))
    await other.close()


async def test_what_was_loaded_goes_on(store: Store, other_url: str, tmp_path: Path) -> None:
    await filled(store)
    await store.copies.dump(tmp_path / "copy.gz")
    other = await opened(other_url)
    await other.copies.load(tmp_path / "copy.gz")
    (search,) = await other.searches.list()
    candidate = await other.candidates.add(new_candidate(search.id, ordinal=1))
    assert candidate is not None
    report = new_report(search.id, candidate.id)
    await other.reports.save(report)
    assert report.document in await other.reports.of_candidate(candidate.id)
    await other.close()


async def test_only_an_empty_archive_is_filled(store: Store, tmp_path: Path) -> None:
    await filled(store)
    await store.copies.dump(tmp_path / "copy.gz")
    with pytest.raises(RecordConflict, match="not empty"):
        await store.copies.load(tmp_path / "copy.gz")


async def test_a_file_is_never_overwritten(store: Store, tmp_path: Path) -> None:
    (tmp_path / "copy.gz").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        await store.copies.dump(tmp_path / "copy.gz")
    assert (tmp_path / "copy.gz").read_bytes() == b"precious"


async def test_a_schema_of_another_release_is_named(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "copy.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({"format": "kernelreef archive", "version": 1, "revision": "0000"}) + "\n")
    with pytest.raises(RecordConflict, match="0000"):
        await store.copies.load(path)


def text_of(path: Path) -> list[str]:
    with gzip.open(path, "rt") as file:
        return file.readlines()


def rewritten(path: Path, lines: list[str]) -> Path:
    with gzip.open(path, "wt") as file:
        file.writelines(lines)
    return path


@pytest.mark.parametrize(
    "harm", ["no end", "a row less", "cut", "not ours", "no JSON", "a table of no archive", "a time"]
)
async def test_a_file_that_is_not_whole_leaves_the_archive_empty(store: Store, tmp_path: Path, harm: str) -> None:
    await filled(store)
    path = tmp_path / "copy.gz"
    await store.copies.dump(path)
    lines = text_of(path)
    match harm:
        case "no end":
            rewritten(path, lines[:-1])
        case "a row less":
            rewritten(path, [*lines[:-2], lines[-1]] if lines[-2].startswith("[") else lines[:2] + lines[3:])
        case "cut":
            path.write_bytes(path.read_bytes()[:-30])
        case "not ours":
            rewritten(path, ["{}\n", *lines[1:]])
        case "no JSON":
            rewritten(path, [*lines[:3], "{\n", *lines[3:]])
        case "a table of no archive":
            rewritten(path, [lines[0], '{"table": "pg_user", "columns": []}\n', *lines[1:]])
        case "a time":
            rewritten(path, [line.replace(str(now().year), "then") for line in lines])
    other_url = f"sqlite+aiosqlite:///{tmp_path / 'other.db'}"
    other = await opened(other_url)
    with pytest.raises(UnreadableDump):
        await other.copies.load(path)
    assert [found for name, found in rows(other_url) if found] == []
    await other.close()


async def test_a_dump_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    store = Store(Database.open(f"sqlite+aiosqlite:///{tmp_path / 'empty.db'}"))
    with pytest.raises(DatabaseUnavailable):
        await store.copies.dump(tmp_path / "copy.gz")
    assert not (tmp_path / "copy.gz").exists()
    await store.close()
