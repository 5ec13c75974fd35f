"""Integers of which some are a marker outside of their bounds."""

import pytest
import torch
from pydantic import ValidationError

from workers.inputs import DRAWS, draw
from workers.protocol import Input, Operator, Shape

FIELDS = {"name": "label", "shape": ("M",), "dtype": "int64", "low": 0.0, "high": "V"}


def operator(**fields: object) -> Operator:
    return Operator.model_validate(
        {
            "name": "loss",
            "entry": "loss",
            "reference": "pass",
            "inputs": [{"name": "x", "shape": ["M", "V"], "dtype": "float32"}, {**FIELDS, **fields}],
            "outputs": [{"name": "y", "dtype": "float32"}],
            "shapes": [{"dims": {"M": 512, "V": 40}}],
        }
    )


@pytest.mark.parametrize("name", DRAWS)
def test_some_integers_are_the_marker_and_all_others_lie_within_the_bounds(name: str) -> None:
    shape = Shape(dims={"M": 512, "V": 40})
    plain, with_marker = (draw(operator(**fields), shape, name, 7)[1] for fields in ({}, {"marker": -100}))
    is_marked = with_marker == -100
    assert with_marker.dtype == torch.int64 and bool(((with_marker >= 0) & (with_marker < 40) | is_marked).all())
    assert torch.equal(with_marker[~is_marked], plain[~is_marked])
    share = is_marked.double().mean().item()
    assert share == 0 if name == "shifted" else share == 0.5 if name == "heavy" else 0.05 < share < 0.25
    if name == "heavy":  # In long stretches, as padding is.
        assert int((is_marked[1:] != is_marked[:-1]).sum()) < 16


@pytest.mark.parametrize(
    "fields, fault",
    [
        ({"marker": 3}, "outside of the values"),
        ({"marker": 40, "high": 41.0}, "outside of the values"),
        ({"marker": 200, "dtype": "int8", "high": 9.0}, "int8"),
        ({"marker": -1, "dtype": "uint8", "high": 9.0}, "uint8"),
        ({"marker": -1, "dtype": "float32", "high": 9.0}, "integers"),
        ({"marker": -1, "dtype": "bool", "high": None}, "integers"),
        ({"marker": -1, "distribution": "sorted"}, "order"),
    ],
)
def test_what_no_marker_may_be(fields: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        operator(**fields)


def test_a_marker_may_lie_above_the_values() -> None:
    assert Input.model_validate({**FIELDS, "high": 19.0, "marker": 255}).marker == 255


def test_specs_without_a_marker_are_as_they_were() -> None:
    assert "marker" not in operator().model_dump_json() and '"marker":-100' in operator(marker=-100).model_dump_json()


@pytest.mark.parametrize("name", DRAWS)
def test_different_integers_may_have_a_marker(name: str) -> None:
    values = draw(operator(marker=-1, distribution="unique", high=600.0), Shape(dims={"M": 512, "V": 4}), name, 3)[1]
    slots = values[values != -1]
    assert len({*slots.tolist()}) == len(slots) and bool((slots >= 0).all())
    assert (len(slots) < len(values)) == (name != "shifted")
