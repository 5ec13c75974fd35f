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


def test_an_unknown_function_is_not_there():
    assert "__nv_no_such_function" not in FUNCTIONS
