"""Migrations and tables are the same schema, on both databases, and the way back works."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine, inspect, make_url

from archive.store.migration import migration_config
from archive.tables import metadata
from migrations import plain_names
from service.requests import StopRules
from tests.archive.fullness import fill_empty_tables, rows_by_table
from tests.postgres import empty_database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return empty_database(request, tmp_path / "archive.db", "sqlite")


@pytest.fixture
def config(url: str) -> Config:
    return migration_config(url)


def table_names(url: str) -> set[str]:
    engine = create_engine(make_url(url), poolclass=NullPool)
    return set(inspect(engine).get_table_names()) - {"alembic_version"}


def test_alembic_check_finds_no_difference(config: Config, url: str) -> None:
    command.upgrade(config, "head")
    command.check(config)  # raises on a difference
    assert table_names(url) == set(metadata.tables)


def test_every_index_of_the_tables_is_made(config: Config, url: str) -> None:
    command.upgrade(config, "head")
    inspector = inspect(create_engine(make_url(url), poolclass=NullPool))
    for table in metadata.tables.values():
        made = {index["name"] for index in inspector.get_indexes(table.name)}
        assert {index.name for index in table.indexes} <= made


def test_down_and_up_again(config: Config, url: str) -> None:
    command.upgrade(config, "head")
    command.downgrade(config, "base")
    assert table_names(url) == set()
    command.upgrade(config, "head")
    assert table_names(url) == set(metadata.tables)


def test_there_is_one_line_of_revisions(config: Config) -> None:
    scripts = ScriptDirectory.from_config(config)
    assert len(scripts.get_heads()) == 1
    assert scripts.get_base() == "0015"


def test_a_difference_would_be_found(config: Config, url: str) -> None:
    command.upgrade(config, "head")
    with create_engine(make_url(url), poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql("DROP INDEX ix_reports_reuse")
    with pytest.raises(command.util.CommandError, match="ix_reports_reuse"):
        command.check(config)


def test_what_each_revision_held_is_still_there_after_all_later_ones(config: Config, url: str) -> None:
    """Every table gets a row as soon as it is there; nothing is lost on the way up, and the way down goes over it."""
    for script in reversed(list(ScriptDirectory.from_config(config).walk_revisions())):
        command.upgrade(config, script.revision)
        fill_empty_tables(url)
        assert {name for name, rows in rows_by_table(url).items() if not rows} == set(), script.revision
    assert rows_by_table(url).keys() - {"alembic_version"} == metadata.tables.keys()
    command.check(config)
    for _ in range(len(list(ScriptDirectory.from_config(config).walk_revisions()))):
        command.downgrade(config, "-1")
    assert table_names(url) == set()


def test_rows_and_stop_rules_follow_the_names_of_the_glossary(config: Config, url: str) -> None:
    command.upgrade(config, "0016")
    fill_empty_tables(url)
    with create_engine(make_url(url), poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql("""UPDATE searches SET budget = 77, stop = '{"judging_s": 6.5, "plateau": 4}'""")
    before = rows_by_table(url)
    command.upgrade(config, "0017")
    after = rows_by_table(url)
    [search] = after["searches"]
    assert search["evaluations"] == 77
    assert StopRules.model_validate_json(search["stop"]).device_seconds == 6.5
    assert json.loads(search["stop"]) == {"device_seconds": 6.5, "plateau": 4}
    for name, rows in before.items():
        columns = plain_names.COLUMNS.get(name, {})
        kept = [{columns.get(column, column): value for column, value in row.items()} for row in rows]
        if name not in ("searches", "alembic_version"):
            assert after[plain_names.TABLES.get(name, name)] == kept
    command.downgrade(config, "0016")
    assert rows_by_table(url) == before


def test_baselines_of_stored_searches_come_from_the_reports_that_elites_rest_on() -> None:
    baselines_of = import_module("migrations.versions.0018_baselines").baselines_of
    shapes = [{"role": "boundary"}, {"role": "benchmark", "weight": 1.0}, {"role": "benchmark", "weight": 3.0}]
    results = [
        {"shape": "N=1", "pacer_us": 20.0, "baselines_us": {"eager": 10.0, "compile": 11.0}},
        {"shape": "N=2", "pacer_us": 40.0, "baselines_us": {"eager": 40.0}},
    ]
    found = baselines_of(shapes, results)
    assert found["low"] == found["mid"] == found["high"] == pytest.approx(0.5**0.25)
    assert found["pacer_us"] == {"N=1": 20.0, "N=2": 40.0}
    assert found["times_us"] == {"N=1": {"eager": 10.0, "compile": 11.0}, "N=2": {"eager": 40.0}}
    assert baselines_of(shapes, [*results[:1], {**results[1], "baselines_us": {}}]) is None
    assert baselines_of(shapes, results[:1]) is None
