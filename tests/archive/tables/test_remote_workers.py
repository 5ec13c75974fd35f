"""The tables of hosts."""

from dataclasses import fields

from archive.records import RemoteWorker, UnverifiedTrace
from archive.tables import doubts, hosts


def test_columns_are_named_like_the_fields_of_the_records() -> None:
    assert {field.name for field in fields(RemoteWorker)} == set(hosts.c.keys())
    assert {field.name for field in fields(UnverifiedTrace)} == set(doubts.c.keys())
