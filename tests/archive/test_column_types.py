"""Every column type gives back what was put in, on both databases."""

from collections import OrderedDict
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select
from sqlalchemy.ext.asyncio import create_async_engine

from archive.column_types import (
    COMPRESSION_LEVEL,
    CompressedColumn,
    EnumColumn,
    JsonColumn,
    TextColumn,
    TimestampColumn,
    now,
)
from archive.records import AxisRecord, Placement

COLUMNS = {
    "moment": TimestampColumn(),
    "word": EnumColumn(Placement),
    "prose": TextColumn(),
    "json": JsonColumn(tuple),
    "compressed": CompressedColumn(),
}


@pytest.fixture
async def keep(database_url: str) -> Any:
    """Write one row, read it back."""
    table = Table(
        "kept", MetaData(), Column("id", Integer, primary_key=True), *(Column(*each) for each in COLUMNS.items())
    )
    engine = create_async_engine(database_url)

    async def round_trip(**values: object) -> dict[str, Any]:
        async with engine.begin() as connection:
            await connection.run_sync(table.create, checkfirst=True)
            id = (await connection.execute(insert(table).values(values).returning(table.c.id))).scalar_one()
            row = (await connection.execute(select(table).where(table.c.id == id))).one()
        return row._asdict()

    yield round_trip
    async with engine.begin() as connection:
        await connection.run_sync(table.drop, checkfirst=True)
    await engine.dispose()


async def test_a_moment_comes_back_as_utc(keep: Any) -> None:
    there = datetime(2026, 3, 1, 1, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    back = (await keep(moment=there))["moment"]
    assert back == there
    assert back.tzinfo is UTC


def test_now_is_aware() -> None:
    assert now().tzinfo is UTC


async def test_a_word_comes_back_as_its_member(keep: Any) -> None:
    assert (await keep(word=Placement.NEW))["word"] is Placement.NEW
    assert (await keep(word="stale"))["word"] is Placement.STALE


@pytest.mark.parametrize(
    "text, kept", [("a\0b", "a\ufffdb"), ("\ud800", "?"), ("größer ✓ 🐚", "größer ✓ 🐚"), ("", "")]
)
async def test_prose_replaces_only_what_no_database_can_hold(keep: Any, text: str, kept: str) -> None:
    assert (await keep(prose=text))["prose"] == kept


async def test_json_takes_mappings_and_dataclasses(keep: Any) -> None:
    values = (MappingProxyType({"a": 1}), OrderedDict(b=[None, 0.1]), AxisRecord("num_warps", 3), "\0")
    expected = ({"a": 1}, {"b": [None, 0.1]}, {"descriptor": "num_warps", "bins": 3}, "\0")
    assert (await keep(json=values))["json"] == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_json_refuses_what_is_not_json(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        JsonColumn(tuple).process_bind_param((value,), None)  # type: ignore[arg-type]


async def test_compressed_text_is_smaller_and_comes_back(keep: Any) -> None:
    text = "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n" * 1000
    assert (await keep(compressed=text))["compressed"] == text
    stored = CompressedColumn().process_bind_param(text, None)  # type: ignore[arg-type]
    assert stored is not None and len(stored) < len(text) / 8
    assert COMPRESSION_LEVEL in range(1, 10)


async def test_none_stays_none(keep: Any) -> None:
    assert set((await keep()).values()) <= {None, 1}
