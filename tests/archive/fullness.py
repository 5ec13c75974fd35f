"""A row in every table of a database, whatever its schema is at the moment."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    NullPool,
    create_engine,
    insert,
    make_url,
    select,
)

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
KEY = '["a key"]'
"""Every key that is text, so that whatever refers to one finds it. It is JSON, like much that is kept."""
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def engine_of(url: str) -> Engine:
    """An engine that keeps no connection."""
    parsed = make_url(url)
    return create_engine(parsed.set(drivername=DRIVERS[parsed.get_backend_name()]), poolclass=NullPool)


def fill_empty_tables(url: str) -> set[str]:
    """Put a row without a NULL into every table that has none; the names of those."""
    metadata, engine, filled = MetaData(), engine_of(url), set()
    metadata.reflect(engine)
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            if connection.execute(select(table).limit(1)).first() is None:
                values = {column.name: _value(column, place) for place, column in enumerate(table.columns, 1)}
                connection.execute(insert(table).values(values))
                filled.add(table.name)
    return filled


def _value(column: Column[Any], place: int) -> object:
    """Something that tells a column from its neighbours."""
    match column.type:
        case Boolean():
            return True
        case Integer():
            return place
        case Float():
            return place + 1 / 3
        case DateTime():
            return AT
        case LargeBinary():
            return bytes(range(256))
        case _:
            return KEY if column.primary_key or column.foreign_keys else f'["{column.table.name}.{column.name} \u20ac"]'


def rows_by_table(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table by column, moments in UTC."""
    metadata, engine = MetaData(), engine_of(url)
    metadata.reflect(engine)
    with engine.connect() as connection:
        return {
            table.name: [
                {name: _plain(value) for name, value in row.items()}
                for row in connection.execute(select(table)).mappings()
            ]
            for table in metadata.sorted_tables
        }


def _plain(value: object) -> object:
    """A value as both databases give it: SQLite keeps no zone, and no truth values under a plain name."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return int(value) if isinstance(value, bool) else value
