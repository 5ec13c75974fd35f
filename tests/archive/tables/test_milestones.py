"""The table of milestones."""

from dataclasses import fields

from archive.records import Milestone
from archive.tables import milestones


def test_columns_are_named_like_the_fields_of_the_record() -> None:
    assert {field.name for field in fields(Milestone)} | {"search", "device"} == set(milestones.c.keys())
