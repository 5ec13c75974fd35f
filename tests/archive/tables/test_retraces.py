"""The table of second traces."""

from dataclasses import fields

from archive.records import Retrace
from archive.tables import candidates, retraces


def test_columns_are_named_like_the_fields_of_the_record_and_go_with_their_candidate() -> None:
    assert {field.name for field in fields(Retrace)} == set(retraces.c.keys())
    (key,) = retraces.c.candidate.foreign_keys
    assert key.column is candidates.c.id
