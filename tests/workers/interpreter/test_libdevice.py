"""Functions of libdevice agree with torch in double precision, and keep the dtype they are given."""

import numpy as np
import pytest
import torch

from workers.interpreter.libdevice import FUNCTIONS

VALUES = np.linspace(0.05, 3.0, 50)
SAME_IN_TORCH = {
    "exp": torch.exp,
    "log": torch.log,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sqrt": torch.sqrt,
}


@pytest.mark.parametrize("name", SAME_IN_TORCH)
def test_a_function_agrees_with_torch(name):
    expected = SAME_IN_TORCH[name](torch.from_numpy(VALUES)).numpy()
    np.testing.assert_allclose(FUNCTIONS[f"__nv_{name}"](VALUES), expected, rtol=1e-12)
    np.testing.assert_allclose(FUNCTIONS[f"__nv_{name}f"](VALUES.astype(np.float32)), expected, rtol=1e-5)


def test_float32_stays_float32():
    single = VALUES.astype(np.float32)
    for name in ("exp", "exp10", "cbrt", "erf", "lgamma", "normcdf", "rcbrt", "round"):
        assert FUNCTIONS[f"__nv_{name}f"](single).dtype == np.float32, name


def test_round_goes_away_from_zero_and_rint_to_even():
    halves = np.array([0.5, 1.5, 2.5, -0.5])
    assert FUNCTIONS["__nv_round"](halves).tolist() == [1.0, 2.0, 3.0, -1.0]
    assert FUNCTIONS["__nv_rint"](halves).tolist() == [0.0, 2.0, 2.0, 0.0]


def test_round_of_what_is_just_below_a_half_is_zero():
    """Adding a half to it rounds up to one in its own precision."""
    below = np.array([0.49999997, -0.49999997, 8388609.0, np.inf], np.float32)
    assert FUNCTIONS["__nv_roundf"](below).tolist() == [0.0, 0.0, 8388609.0, np.inf]
    assert FUNCTIONS["__nv_round"](np.array([0.49999999999999994, 2**52 + 1.0])).tolist() == [0.0, 2**52 + 1.0]
    assert np.signbit(FUNCTIONS["__nv_round"](np.array([-0.3])))


def test_the_inverse_of_erfc_is_exact_in_its_tail():
    tail = np.array([1e-8, 0.5, 1.0, 1.5])
    expected = [4.052237243871389, 0.4769362762044699, 0.0, -0.4769362762044699]
    np.testing.assert_allclose(FUNCTIONS["__nv_erfcinv"](tail), expected, rtol=1e-12)
    np.testing.assert_allclose(FUNCTIONS["__nv_erfcinvf"](tail.astype(np.float32)), expected, rtol=1e-6)


I32, I64, F32, F64 = np.int32, np.int64, np.float32, np.float64
NAN, INF = np.nan, np.inf
KNOWN = {
    "popc": ([0, 1, 255, -1, -(2**31)], I32, [0, 1, 8, 32, 1]),
    "popcll": ([0, -1, 2**62], I64, [0, 64, 1]),
    "clz": ([0, 1, 255, -1, 2**30], I32, [32, 31, 24, 0, 1]),
    "clzll": ([0, 1, -1, 2**62, 2**62 - 1], I64, [64, 63, 0, 1, 2]),
    "ffs": ([0, 1, 12, -(2**31), -1], I32, [0, 1, 3, 32, 1]),
    "ffsll": ([0, 1 << 40, -(2**63)], I64, [0, 41, 64]),
    "llrintf": ([0.5, 1.5, -2.5, 1e30, INF], F32, [0, 2, -2, 2**63 - 1, 2**63 - 1]),
    "llroundf": ([0.5, 1.5, -2.5], F32, [1, 2, -3]),
    "float2int_rn": ([2.5, -3.5, 3e9, -3e9, NAN], F32, [2, -4, 2**31 - 1, -(2**31), 0]),
    "float2int_rz": ([2.7, -2.7], F32, [2, -2]),
    "float2int_rd": ([2.7, -2.7], F32, [2, -3]),
    "float2int_ru": ([2.2, -2.7], F32, [3, -2]),
    "float2uint_rn": ([-1.0, 3e9, 5e9], F32, [0, 3000000000, 2**32 - 1]),
    "float2ll_rn": ([2.5, -1e30], F32, [2, -(2**63)]),
    "double2int_rn": ([2.5, 1e10], F64, [2, 2**31 - 1]),
    "int2float_rn": ([16777217, 16777219, -5], I32, [16777216.0, 16777220.0, -5.0]),
    "uint2float_rn": ([-1], I32, [2.0**32]),
    "ll2double_rn": ([2**53 + 1], I64, [2.0**53]),
    "float_as_int": ([1.0, -0.0, INF], F32, [0x3F800000, -(2**31), 0x7F800000]),
    "int_as_float": ([0x3F800000, 0x7F800000], I32, [1.0, INF]),
    "double_as_longlong": ([1.0], F64, [0x3FF0000000000000]),
    "longlong_as_double": ([0x3FF0000000000000], I64, [1.0]),
    "sinpi": ([0.0, 0.5, 1.0, 1.5, -0.5, 1e15 + 1], F64, [0.0, 1.0, 0.0, -1.0, -1.0, 0.0]),
    "cospi": ([0.0, 0.5, 1.0, 1.5, -1.0, 1e15 + 1], F64, [1.0, 0.0, -1.0, 0.0, -1.0, -1.0]),
    "sinpif": ([0.25], F32, [np.sqrt(F32(0.5))]),
    "cospif": ([1 / 3], F32, [0.5]),
    "logbf": ([8.0, 0.3, 1e-45, 0.0, -INF], F32, [3.0, -2.0, -149.0, -INF, INF]),
    "normcdfinv": ([0.5, 0.975], F64, [0.0, 1.959963984540054]),
    "erfcx": ([0.0, 10.0], F64, [1.0, 0.05614099274382259]),
    "cyl_bessel_i0": ([0.0, 1.0], F64, [1.0, 1.2660658777520082]),
    "cyl_bessel_i1": ([1.0], F64, [0.5651591039924851]),
    "j0": ([1.0], F64, [0.7651976865579666]),
    "j1": ([1.0], F64, [0.44005058574493355]),
    "y0": ([1.0], F64, [0.08825696421567697]),
    "y1": ([1.0], F64, [-0.7812128213002887]),
}
"""Operands, their dtype and results; those of integers and roundings are CUDA's, others are in every table."""


@pytest.mark.parametrize("name", KNOWN)
def test_known_values(name):
    operands, dtype, expected = KNOWN[name]
    with np.errstate(all="ignore"):
        got = FUNCTIONS[f"__nv_{name}"](np.array(operands, dtype))
    np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype is F32 else 1e-14)


KNOWN_OF_TWO = {
    "powif": ([2.0, -3.0, 0.0, 1.1], [-2, 3, 0, 5], F32, I32, [0.25, -27.0, 1.0, 1.61051]),
    "powi": ([10.0, -1.0], [-3, 2**31 - 1], F64, I32, [1e-3, -1.0]),
    "ldexpf": ([1.5, 1.0, -1.0], [3, -149, 200], F32, I32, [12.0, 2.0**-149, -INF]),
    "scalbn": ([1.5], [-1], F64, I32, [0.75]),
    "fdimf": ([3.0, 1.0, NAN, INF], [1.0, 3.0, 1.0, INF], F32, F32, [2.0, 0.0, NAN, 0.0]),
    "nextafterf": ([1.0], [2.0], F32, F32, [1.0 + 2.0**-23]),
    "rhypot": ([3.0], [4.0], F64, F64, [0.2]),
    "hadd": ([2**31 - 1, -3], [2**31 - 1, 0], I32, I32, [2**31 - 1, -2]),
    "rhadd": ([2**31 - 1, -3], [2**31 - 2, 0], I32, I32, [2**31 - 1, -1]),
    "uhadd": ([2**32 - 1], [2**32 - 1], np.uint32, np.uint32, [2**32 - 1]),
    "urhadd": ([2**32 - 1], [2**32 - 2], np.uint32, np.uint32, [2**32 - 1]),
}


@pytest.mark.parametrize("name", KNOWN_OF_TWO)
def test_known_values_of_two_operands(name):
    left, right, first, second, expected = KNOWN_OF_TWO[name]
    with np.errstate(all="ignore"):
        got = FUNCTIONS[f"__nv_{name}"](np.array(left, first), np.array(right, second))
    np.testing.assert_allclose(got, expected, rtol=1e-6 if first is F32 else 1e-14)


def test_a_norm_of_three():
    three = (np.array([float(side)], F32) for side in (2, 3, 6))
    assert FUNCTIONS["__nv_norm3df"](*three) == 7.0


def test_an_unknown_function_is_not_there():
    assert "__nv_no_such_function" not in FUNCTIONS
