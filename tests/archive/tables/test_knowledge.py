"""Records and tables of knowledge agree on names."""

from dataclasses import fields
from typing import Any

import pytest

from archive import records, tables


@pytest.mark.parametrize(
    "table, record",
    [(tables.knowledge, records.KnowledgeEntryRecord), (tables.findings, records.KnowledgeFindingRecord)],
)
def test_columns_are_named_like_the_fields_of_records(table: Any, record: type) -> None:
    assert {field.name for field in fields(record)} <= set(table.c.keys())
