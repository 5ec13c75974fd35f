"""Starts of workers: what counts as failed, and when a kind of worker is said not to start."""

import os
from collections.abc import Iterator

import pytest

from service.fleet.starts import FAILED_STARTS, Starts


@pytest.fixture
def starts() -> Iterator[Starts]:
    starts = Starts(workers=2)
    yield starts
    assert starts._ready == {}, "every pipe is closed"


def fail(starts: Starts, *, ready: bool = False) -> None:
    start, theirs = starts.begin()
    if ready:
        os.write(theirs, b"+")
    os.close(theirs)
    starts.end(start, "the trace worker exited with status 1")
    starts.close(start)


def test_every_worker_has_to_fail_several_times(starts: Starts) -> None:
    for _ in range(2 * FAILED_STARTS - 1):
        fail(starts)
        assert not starts.failing
    fail(starts)
    assert starts.failing
    assert starts.reason == "the trace worker exited with status 1"


def test_a_worker_that_was_ready_begins_the_count_anew(starts: Starts) -> None:
    for _ in range(2 * FAILED_STARTS - 1):
        fail(starts)
    fail(starts, ready=True)
    for _ in range(2 * FAILED_STARTS - 1):
        fail(starts)
    assert not starts.failing


@pytest.mark.parametrize("ready", [True, False])
def test_others_follow_once_one_is_ready_or_failed(starts: Starts, *, ready: bool) -> None:
    start, theirs = starts.begin()
    assert not starts.led
    if ready:
        os.write(theirs, b"+")
    else:
        starts.end(start, "the measure worker exited with status 1")
    assert starts.led
    os.close(theirs)
    starts.close(start)


def test_while_one_is_ready_the_kind_starts(starts: Starts) -> None:
    start, theirs = starts.begin()
    for _ in range(2 * FAILED_STARTS):
        fail(starts)
    assert starts.failing
    os.write(theirs, b"+")
    assert not starts.failing
    os.close(theirs)
    fail(starts)
    assert not starts.failing
    starts.close(start)
