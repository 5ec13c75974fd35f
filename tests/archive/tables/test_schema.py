"""What all tables share."""

from itertools import chain

from sqlalchemy import Integer
from sqlalchemy.dialects import postgresql, sqlite

from archive.tables import metadata, placements


def test_every_constraint_and_index_has_a_name() -> None:
    parts = chain.from_iterable((*table.constraints, *table.indexes) for table in metadata.tables.values())
    assert [part for part in parts if not part.name] == []


def test_sequences_are_plain_integers_where_only_these_count_by_themselves() -> None:
    kind = placements.c.seq.type
    assert isinstance(kind.dialect_impl(sqlite.dialect()), Integer)
    assert kind.compile(sqlite.dialect()) == "INTEGER"
    assert kind.compile(postgresql.dialect()) == "BIGINT"
