import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from tests.workers.protocol.documents import changed
from workers.protocol import FAR, Operator, Scalar, Shape

SPEC: dict[str, Any] = {
    "name": "gather",
    "entry": "gather",
    "reference": "def gather(x, index): ...",
    "inputs": [
        {"name": "x", "shape": ["M", "N"], "dtype": "bfloat16"},
        {"name": "index", "shape": ["K", 2], "dtype": "int64", "distribution": "integer", "high": "M"},
    ],
    "outputs": [{"name": "y", "dtype": "bfloat16"}],
    "scalars": [{"name": "scale", "dtype": "float", "value": 2}],
    "shapes": [{"dims": {"M": 8, "N": 16, "K": 3}, "weight": 2.0}],
    "ranges": {"M": [1, 64]},
}


def test_a_spec_survives_json_with_its_digest() -> None:
    operator = Operator.model_validate(SPEC)
    assert Operator.model_validate_json(operator.model_dump_json()) == operator
    assert Operator.model_validate_json(operator.model_dump_json()).digest == operator.digest
    assert operator.scalars[0].value == 2.0


def test_sizes_come_from_the_spec() -> None:
    operator = Operator.model_validate(SPEC)
    dims = {"M": 8, "N": 16, "K": 3}
    assert operator.dimensions == ("M", "N", "K")
    assert operator.input_shape(operator.inputs[1], dims) == (3, 2)
    assert operator.input_bytes(dims) == 8 * 16 * 2 + 3 * 2 * 8


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("name",), "Gather", "name"),
        (("entry",), "lambda", "entry"),
        (("inputs", 1, "name"), "x", "inputs"),
        (("inputs", 0, "name"), "class", "inputs"),
        (("inputs", 0, "dtype"), "complex64", "inputs"),
        (("inputs", 1, "high"), "Q", r"inputs\[1\].high"),
        (("inputs", 1, "high"), None, "high"),
        (("inputs", 0, "distribution"), "integer", "integer"),
        (("inputs", 0, "low"), math.inf, "finite"),
        (("shapes", 0, "dims"), {"M": 8, "N": 16}, r"shapes\[0\]"),
        (("shapes", 0, "dims", "Q"), 3, r"shapes\[0\].Q"),
        (("shapes", 0, "dims", "M"), 0, "shapes"),
        (("shapes", 0, "weight"), 0, "weight"),
        (("shapes", 0, "weight"), math.inf, "weight"),
        (("shapes", 0, "weight"), math.nan, "weight"),
        (("shapes",), [], "shapes"),
        (("ranges", "M"), [9, 3], r"ranges.M"),
        (("ranges",), {"Q": [1, 2]}, r"ranges.Q"),
        (("scalars", 0, "value"), True, "scalars"),
        (("more",), 1, "more"),
    ],
)
def test_a_bad_spec_is_told_which_field_is_wrong(path: tuple[str | int, ...], value: object, field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Operator.model_validate_json(json.dumps(changed(SPEC, path, value)))


def test_a_shape_is_far_where_32_bits_do_not_count_an_inputs_elements() -> None:
    operator = Operator.model_validate(SPEC)
    assert [operator.is_far({"M": FAR // 16 + more, "N": 16, "K": 3}) for more in (0, 1)] == [False, True]
    assert [operator.is_far({"M": 8, "N": 16, "K": FAR // 2 + more}) for more in (0, 1)] == [False, True]


def test_whatever_is_judged_differently_has_another_digest() -> None:
    honest = Operator.model_validate(SPEC).digest
    for path, value in (
        (("reference",), "def gather(x, index): return x"),
        (("precision",), {"allow_tf32": True}),
        (("scalars", 0, "value"), 3),
        (("inputs", 0, "mutable"), True),
    ):
        assert Operator.model_validate(changed(SPEC, path, value)).digest != honest


def test_an_output_with_the_name_of_a_mutable_input_is_its_content() -> None:
    item = {"name": "x", "shape": ["N"], "dtype": "float32", "mutable": True}
    spec = {**SPEC, "inputs": [item], "ranges": {}, "shapes": [{"dims": {"N": 4}}], "scalars": []}
    outputs = [{"name": "z", "dtype": "int32"}, {"name": "x", "dtype": "float32"}]
    assert Operator.model_validate({**spec, "outputs": outputs}).in_place == {1: 0}
    for inputs, wrong, said in (
        ([{**item, "mutable": False}], outputs, "make it mutable"),
        ([item], [{"name": "x", "dtype": "int32"}], "content of input 'x' is float32"),
        ([item], [outputs[1], outputs[1]], "output already"),
    ):
        with pytest.raises(ValidationError, match=said):
            Operator.model_validate({**spec, "inputs": inputs, "outputs": wrong})


def test_a_shape_has_one_key_whatever_the_order() -> None:
    assert Shape(dims={"N": 2, "M": 1}).key == Shape(dims={"M": 1, "N": 2}).key == "M=1,N=2"


def test_an_int_may_be_a_size_of_its_own() -> None:
    scalar = {"name": "window", "dtype": "int", "value": "W"}
    sizes = SPEC["shapes"][0]["dims"]
    spec = changed(changed(SPEC, ("scalars",), [scalar]), ("shapes",), [{"dims": {**sizes, "W": 3}}])
    operator = Operator.model_validate({**spec, "ranges": {"W": [1, 4]}})
    assert operator.dimensions == (*operator.extents, "W")
    assert operator.scalar_values({**sizes, "W": 3}) == [3]
    with pytest.raises(ValidationError, match="gives no size for dimension 'W'"):
        Operator.model_validate({**spec, "shapes": [{"dims": sizes}]})
    for dtype in ("float", "bool"):
        with pytest.raises(ValidationError, match=f"W is not of dtype '{dtype}'"):
            Scalar(name="a", dtype=dtype, value="W")


def test_a_scalar_keeps_its_type() -> None:
    for scalar in (Scalar(name="a", dtype="bool", value=True), Scalar(name="a", dtype="int", value=1)):
        assert type(Scalar.model_validate_json(scalar.model_dump_json()).value) is type(scalar.value)
