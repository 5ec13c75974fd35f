"""Tables of steering hold the fields of their records."""

from dataclasses import fields

import pytest

from archive import records, tables


@pytest.mark.parametrize(
    ("table", "record"),
    [
        (tables.pins, records.PinRecord),
        (tables.hints, records.HintRecord),
        (tables.mutation_reports, records.MutationReportRecord),
    ],
    ids=["pins", "hints", "gates"],
)
def test_columns_are_named_like_the_fields_of_records(table, record) -> None:
    assert {field.name for field in fields(record)} <= set(table.c.keys())
