"""Undefined values are the same throughout a draw, and follow from the seed."""

import numpy as np
import pytest
from triton import language as tl

from workers.interpreter.undefined import UNDEFINED, UndefinedValues, is_beyond

DRAWS = np.arange(4)


def chance(seed: int) -> UndefinedValues:
    return UndefinedValues(np.random.default_rng(seed), len(DRAWS))


def test_integers_that_are_defined_are_left_alone():
    data = np.arange(6, dtype=np.int32).reshape(1, 1, 6)
    assert chance(1).settle(data, np.zeros_like(data, bool), DRAWS) is data
    mixed = chance(1).settle(data, data == 3, DRAWS)
    assert mixed.shape == (4, 1, 6) and mixed.dtype == np.int32
    assert (np.delete(mixed, 3, axis=2) == np.delete(data, 3, axis=2)).all()
    assert sum(mixed[:, 0, 3] == 3) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_of_nan_are_those_of_the_draw(dtype):
    data = np.array([[[1.0, np.nan, -np.nan]]], dtype)
    settled = chance(2).settle_nan(data, DRAWS)
    assert np.isnan(settled[..., 1:]).all() and (settled[..., 0] == 1.0).all()
    bits = settled.view(f"i{data.itemsize}")
    assert (bits[..., 1] == bits[..., 2]).all()
    assert sum(bits[:, 0, 1] == np.iinfo(bits.dtype).max) == 2
    assert len(np.unique(bits[:, 0, 1])) == 3
    assert (chance(2).settle_nan(data, DRAWS[2:]).view(bits.dtype) == bits[2:]).all()


def test_what_decides_is_what_is_drawn():
    data, undefined = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    drawn = {tuple(chance(seed).settle(data, undefined, DRAWS).reshape(-1)) for seed in range(20)}
    assert len(drawn) == 20
    assert {values[0] == 0 for values in drawn} == {True, False}
    assert (chance(3).settle(data, undefined, DRAWS) == chance(3).settle(data, undefined, DRAWS)).all()


def test_ends_of_integers_are_within():
    data = np.array([[[-32768.9, -32769.0, 32767.9, 32768.0, np.nan]]])
    assert is_beyond(data, tl.int16).reshape(-1).tolist() == [False, True, False, True, True]
    far = np.array([[[2.0**63, -(2.0**63), 2.0**62]]])
    assert is_beyond(far, tl.int64).reshape(-1).tolist() == [True, False, False]


ONE, BLOCK = (1, 1), (1, 1, 8)


@pytest.mark.parametrize("shape", [ONE, BLOCK])
def test_what_does_not_depend_on_the_inputs_is_known_to_a_compiler(shape):
    assert chance(1).known(np.ones(shape, bool), DRAWS).all()
    assert chance(1).known(np.ones((4, *shape[1:]), bool), DRAWS).all(), "not even if it seems to"


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 8)])
def test_what_depends_on_the_inputs_is_not_known_to_a_compiler(shape):
    """A NaN in one draw, or in one program."""
    for place in (0, (slice(None), 0)):
        undefined = np.zeros(shape, bool)
        undefined[place] = True
        assert not chance(1).known(undefined, DRAWS).any()


def test_elements_are_known_each_by_itself():
    undefined = np.zeros((4, 3, 8), bool)
    undefined[..., 5] = undefined[0, :, 2] = True
    assert chance(1).known(undefined, DRAWS).any(axis=(0, 1)).tolist() == [False] * 5 + [True] + [False] * 2


def test_a_draw_by_itself_is_held_against_those_that_came_by_before():
    block = np.ones(BLOCK, bool)

    def known(*found: tuple[int, np.ndarray]) -> list[bool]:
        drawn = chance(1)
        return [(drawn.begin(), drawn.known(undefined, DRAWS[draw : draw + 1]).any())[1] for draw, undefined in found]

    assert known((0, block), (0, block), (1, block)) == [False, False, True]
    assert known((0, ~block), (1, block), (2, block)) == [False] * 3
    assert chance(1).known(np.ones(ONE, bool), DRAWS[:1]).all(), "of scalars it is taken that they do not depend"


def test_elements_lie_in_any_order_that_is_the_same_for_equal_sizes():
    drawn, data = chance(1), np.arange(64).reshape(1, 1, 8, 8)
    first, second = drawn.shuffle(data, DRAWS), drawn.shuffle(np.ravel(data)[None, None] + 1, DRAWS)
    assert first.shape == (4, 1, 8, 8) and (np.sort(first.reshape(4, -1)) == np.arange(64)).all()
    assert (first.reshape(4, -1) + 1 == second[:, 0]).all()
    assert sum((row == data[0]).all() for row in first) == 2 and len(np.unique(first, axis=0)) == 3
    assert drawn.shuffle(data[..., :1, :1], DRAWS).shape == (1, 1, 1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_that_are_undefined_are_numbers(dtype):
    settled = chance(1).settle(np.zeros((1, 1), dtype), np.ones((1, 1), bool), DRAWS)
    assert settled.dtype == dtype and len(np.unique(settled)) == 3 and (np.abs(settled) <= 2).all()


def test_shifts_and_quotients_that_are_undefined():
    right = np.array([0, 31, 32, -1], np.int32)
    assert UNDEFINED["shl"](np.ones(4, np.int32), right).tolist() == [False, False, True, True]
    assert UNDEFINED["srem"](np.ones(4, np.int32), right).tolist() == [True, False, False, False]
    least = np.full(4, -(2**31), np.int32)
    assert UNDEFINED["sdiv"](least, right).tolist() == UNDEFINED["srem"](least, right).tolist()
    assert UNDEFINED["sdiv"](least, right).tolist() == [True, False, False, True]
    assert UNDEFINED["udiv"](least.view(np.uint32), right.view(np.uint32)).tolist() == [True, False, False, False]
    assert UNDEFINED["lshr"](np.ones(2, bool), np.array([False, True])).tolist() == [False, True]
