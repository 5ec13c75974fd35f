"""Equal bits pass, and so does what unordered additions and one more rounding do; anything more does not."""

import torch

from tests.workers.checks.cases import HONEST, gather, operator
from workers.oracle.repetition import describe_difference


def compared(name, change, dtype="bfloat16", draw="normal"):
    evidence = gather(operator(name, dtype), draw, 0, HONEST[name])
    other = evidence.outputs[0].clone()
    change(other)
    return describe_difference(evidence, evidence.outputs, (other,))


def test_equal_runs_do_not_differ():
    assert compared("softmax", lambda y: None) is None
    assert compared("gelu", lambda y: None, draw="planted") is None
    assert compared("argmax", lambda y: None) is None


def test_one_unit_in_the_last_place_of_some_elements_is_forgiven():
    def nudge(y):
        y.view(torch.int16)[0, ::8] += 1

    assert compared("softmax", nudge) is None


def test_small_differences_of_sums_are_forgiven():
    def nudge(y):
        y *= 1 + 1e-7

    assert compared("matmul", nudge, "float32") is None


def test_large_differences_are_described():
    def change(y):
        y[7, 3] += 1

    said = compared("matmul", change)
    assert "at [7, 3] (K=80,M=48,N=96)" in said
    assert "a race between programs" in said


def test_differences_everywhere_are_too_many_though_each_is_small():
    def nudge(y):
        y.view(torch.int16).add_(3)

    assert "differs between two runs" in compared("softmax", nudge)


def test_an_integer_may_not_differ():
    def change(y):
        y[5] += 1

    assert "at [5]" in compared("argmax", change)


def test_a_value_may_not_become_nan():
    def change(y):
        y[1, 2] = float("nan")

    assert "nan at [1, 2]" in compared("softmax", change)
