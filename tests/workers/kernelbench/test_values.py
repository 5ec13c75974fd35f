"""How the inputs of an imported operator are drawn."""

import pytest
import torch

from workers.kernelbench.origins import UNKNOWN, ValueOrigin
from workers.kernelbench.values import Undrawable, drawn

RAND, RANDN = ValueOrigin("uniform", 0.0, 1.0), ValueOrigin("normal", 0.0, 1.0)


@pytest.mark.parametrize(
    "origin, parameter, published, fields",
    [
        (RAND, False, False, {}),
        (RAND, False, True, {"distribution": "uniform", "low": 0.0, "high": 1.0}),
        (RANDN, False, False, {}),
        (RANDN, True, False, {"distribution": "normal"}),
        (RAND, True, False, {"distribution": "uniform", "low": 0.0, "high": 1.0}),
        (ValueOrigin("uniform", -2.0, 1.0), False, False, {"distribution": "uniform", "low": -2.0, "high": 1.0}),
        (ValueOrigin("constant", 1.0, 1.0), True, False, {"distribution": "uniform", "low": 0.5, "high": 1.5}),
        (ValueOrigin("normal", 0.0, 0.25), True, False, {"distribution": "uniform", "low": -0.5, "high": 0.5}),
        (UNKNOWN, False, False, {}),
        (UNKNOWN, True, False, {"distribution": "normal"}),
    ],
)
def test_floats(origin: ValueOrigin, parameter: bool, published: bool, fields: dict[str, object]) -> None:
    assert drawn("x", torch.float32, origin, parameter=parameter, published=published) == fields


def test_whole_numbers_need_a_range() -> None:
    whole = ValueOrigin("whole", 0.0, 9.0)
    assert drawn("t", torch.int64, whole, parameter=False, published=False) == {"low": 0.0, "high": 10.0}
    assert drawn("m", torch.bool, UNKNOWN, parameter=False, published=False) == {}
    with pytest.raises(Undrawable, match="'t' holds integers"):
        drawn("t", torch.int64, UNKNOWN, parameter=False, published=False)
