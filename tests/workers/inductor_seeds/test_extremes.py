"""Maximum numbers and tensors of a host function."""

from tests.workers.tracer.jobs import operator
from workers.inductor_seeds.extremes import Extremes


def extremes() -> Extremes:
    """Return the extremes of an operator of x[M, N] and w[N] with M up to 65536 and N up to 32768."""
    found = Extremes(operator(ranges={"M": (1, 65536), "N": (1, 32768)}))
    found.dimension("M", "M")
    found.dimension("N", "N")
    return found


def test_inputs_are_known_by_the_largest_sizes_of_the_operator():
    found = extremes()
    assert (found.is_small("x"), found.is_small("w")) == (False, True)
    assert found.dtypes["w"] == "tl.float32"


def test_numbers_grow_with_what_they_are_computed_from():
    found = extremes()
    found.number("count", "(3 + N) // 4 * 2")
    assert found.most("count + 1") == 32771 // 4 * 2 + 1


def test_numbers_that_shrink_what_they_are_added_to_are_exact():
    found = extremes()
    assert (found.most("-2 + N"), found.most("(N + -3) // 2 + 1")) == (32766, 32765 // 2 + 1)
    assert found.most("-2 * N") is None


def test_what_is_not_known_is_not_small():
    found = extremes()
    assert [found.most(code) for code in ("M - N", "other", "M // N", "M * other")] == [None] * 4
    found.tensor("scratch", "(M, other)", "torch.float32")
    found.tensor("part", "(N, 4)", "torch.bfloat16")
    assert (found.is_small("scratch"), found.is_small("part")) == (False, True)
    assert found.dtypes["part"] == "tl.bfloat16"
