"""The tables of hosts."""

from dataclasses import fields

from archive.records import RemoteWorker, UnverifiedTrace
from archive.tables import remote_workers, unverified_traces


def test_columns_are_named_like_the_fields_of_the_records() -> None:
    assert {field.name for field in fields(RemoteWorker)} == set(remote_workers.c.keys())
    assert {field.name for field in fields(UnverifiedTrace)} == set(unverified_traces.c.keys())
