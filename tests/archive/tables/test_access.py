"""Columns of access are named like the fields of its records, and hold no secret."""

from dataclasses import fields
from typing import Any

import pytest

from archive import records, tables


@pytest.mark.parametrize(
    "table, record",
    [
        (tables.tokens, records.TokenRecord),
        (tables.sessions, records.SessionRecord),
        (tables.audit, records.AuditRecord),
        (tables.idempotency_replies, records.IdempotencyRecord),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_record_is_a_row(table: Any, record: type) -> None:
    assert {field.name for field in fields(record)} == set(table.c.keys())
