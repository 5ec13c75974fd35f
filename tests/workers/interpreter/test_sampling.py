"""Random choice of layers, pairs and iterations."""

from random import Random

import pytest

from workers.interpreter.sampling import LoopSample, draw_pairs, draw_spread, layers


@pytest.mark.parametrize(("count", "most"), [(0, 4), (3, 4), (4, 4), (10, 4), (4096, 32)])
def test_one_of_each_layer_stands_for_all_of_it(count, most):
    drawn = layers(Random(1), count, most)
    assert len(drawn) == min(count, most)
    assert sum(share for _, share in drawn) == count
    start = 0
    for number, share in drawn:
        assert start <= number < start + share
        start += share


def test_every_number_is_drawn_as_often_as_it_stands_for():
    random, counts = Random(2), [0.0] * 10
    for _ in range(4000):
        for number, share in layers(random, 10, 4):
            counts[number] += share / 4000
    assert counts == pytest.approx([1.0] * 10, abs=0.15)


def test_pairs_mirror_each_other():
    for programs in (1, 2, 7, 1000):
        drawn = draw_pairs("a", programs, 4)
        assert all(sum(pair) == (programs - 1) * len(pair) / 2 for pair, _ in drawn)
    assert draw_pairs("a", 7, 4) == [((0, 6), 1), ((1, 5), 1), ((2, 4), 1), ((3,), 1)]
    assert draw_pairs("a", 1000, 4) == draw_pairs("a", 1000, 4) != draw_pairs("b", 1000, 4)


def test_programs_that_are_run_again_go_through_the_same_turns():
    loop_sample = LoopSample("a", 4)
    first, second = loop_sample.turns(1000), loop_sample.turns(1000)
    assert first != second
    loop_sample.again()
    assert (loop_sample.turns(1000), loop_sample.turns(1000)) == (first, second)


def test_many_programs_are_spread_over_the_grid():
    drawn = draw_spread("a", 6400)
    assert [len(group) for group, _ in drawn] == [8] * 8
    assert {share for _, share in drawn} == {100}
    assert sorted(number // 100 for group, _ in drawn for number in group) == list(range(64))
    assert draw_spread("a", 3) == [((0,), 1), ((1,), 1), ((2,), 1)]
