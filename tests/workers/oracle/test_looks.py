"""Looks end in time, and together they are at every run once, whatever is known."""

from itertools import islice
from math import inf
from types import SimpleNamespace

import pytest

from workers.commands import TIMED, InputContent
from workers.oracle.base import PlanRun
from workers.oracle.looks import ExaminedGroups, Look


def runs_of(*streams: int, shape: str = "M=1") -> list[PlanRun]:
    plan = SimpleNamespace(shape=SimpleNamespace(key=shape))
    return [PlanRun(plan, None, InputContent(draw=TIMED, seed="5eed", stream=stream)) for stream in streams]


def looked_at(runs: list[PlanRun], known: set[int], look_s: float) -> list[list[list[int]]]:
    """Positions of the runs by look and batch."""
    groups, found, start = ExaminedGroups(runs), [], 0
    while start is not None:
        look = Look(groups, start, look_s)
        found.append(list(look.batches(lambda run: run.content.stream in known)))
        start = look.next
    return found


def test_batches_of_unknown_contents_grow_from_one():
    assert looked_at(runs_of(*range(8)), set(), inf) == [[[0], [1, 2], [3, 4, 5, 6], [7]]]


def test_a_look_without_time_is_at_one_unknown_content_and_at_known_ones_until_the_next():
    found = looked_at(runs_of(*range(8)), {1, 2, 5, 6, 7}, 0.0)
    assert found == [[[0, 1, 2]], [[3]], [[4, 5, 6, 7]]]
    assert looked_at(runs_of(*range(8)), set(range(8)), 0.0) == [[[*range(8)]]]


def test_runs_on_equal_content_are_in_one_batch():
    assert looked_at(runs_of(3, 4, 3, 4, 3), set(), 0.0) == [[[0, 2, 4]], [[1, 3]]]


def test_a_batch_is_of_one_shape():
    runs = [*runs_of(0, 1), *runs_of(0, 1, shape="M=2")]
    assert looked_at(runs, {0, 1}, inf) == [[[0, 1], [2, 3]]]


def test_a_look_may_begin_at_the_pace_of_the_one_before():
    runs = ExaminedGroups(runs_of(*range(12)))
    first = Look(runs, 0, inf)
    assert [len(batch) for batch in islice(first.batches(lambda _: False), 2)] == [1, 2]
    assert first.unknown == 3 == first.next
    later = Look(runs, first.next, 0.0, first.unknown)
    assert list(later.batches(lambda run: run.content.stream < 5)) == [[3, 4, 5, 6, 7]]
    assert later.unknown == 3


@pytest.mark.parametrize("look_s", [0.0, inf])
def test_without_runs_there_is_nothing_to_look_at(look_s: float):
    assert looked_at([], set(), look_s) == [[]]
