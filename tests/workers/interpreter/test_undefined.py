"""Undefined values are the same throughout a draw, and follow from what decides."""

import numpy as np
import pytest
from triton import language as tl

from workers.interpreter.undefined import UNDEFINED, Chance, is_beyond, may_be_known

DRAWS = np.arange(4)


def chance(seed: int) -> Chance:
    return Chance(np.random.default_rng(seed), len(DRAWS))


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


def test_what_depends_on_the_inputs_is_not_known_to_a_compiler():
    single, block = np.zeros((1, 1)), np.zeros((1, 1, 8))
    assert may_be_known(single, DRAWS) and may_be_known(block, DRAWS)
    assert not may_be_known(np.zeros((4, 1)), DRAWS) and not may_be_known(np.zeros((4, 1, 8)), DRAWS)
    assert may_be_known(single, DRAWS[:1]) and not may_be_known(block, DRAWS[:1])


def test_shifts_and_quotients_that_are_undefined():
    right = np.array([0, 31, 32, -1], np.int32)
    assert UNDEFINED["shl"](np.ones(4, np.int32), right).tolist() == [False, False, True, True]
    assert UNDEFINED["srem"](np.ones(4, np.int32), right).tolist() == [True, False, False, False]
