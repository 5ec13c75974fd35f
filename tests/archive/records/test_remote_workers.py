"""What is known of a host."""

from dataclasses import FrozenInstanceError, fields

import pytest

from archive.records import NewRemoteWorker, RemoteWorker, RemoteWorkerCounts, RemoteWorkerState


def test_a_host_is_what_joined_and_how_it_stands() -> None:
    assert {field.name for field in fields(NewRemoteWorker)} < {field.name for field in fields(RemoteWorker)}
    assert [state.value for state in RemoteWorkerState] == ["active", "draining", "left", "suspended", "revoked"]


def test_a_tally_adds_nothing_unless_it_says_so() -> None:
    tally = RemoteWorkerCounts(done=1)
    assert (tally.refused, tally.checked, tally.disagreed) == (0, 0, 0)
    with pytest.raises(FrozenInstanceError):
        tally.done = 2
