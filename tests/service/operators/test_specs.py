import copy
import datetime

import pytest
from pydantic import BaseModel

from service.errors import InvalidInput
from service.operators.specs import RIGHT, parse_operator
from workers.protocol import BenchmarkShape, Input, Operator, Output, Policy, Precision, Scalar

SPEC = {
    "name": "scale",
    "entry": "scale",
    "reference": "def scale(x, factor):\n    return x * factor\n",
    "seeds": ["def scale(x, factor):\n    return x\n"],
    "inputs": [{"name": "x", "shape": ["M", 64], "dtype": "bfloat16"}],
    "scalars": [{"name": "factor", "dtype": "float", "value": 2.0}],
    "outputs": [{"name": "y", "dtype": "bfloat16"}],
    "shapes": [{"M": 128}, {"M": 4096, "weight": 2.0}],
    "ranges": {"M": [1, 8192]},
}


def changed(path, value):
    """The spec with one field set, by its path; `...` deletes it."""
    spec = copy.deepcopy(SPEC)
    at, (*way, last) = spec, path
    for part in way:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return spec


def refusal(spec):
    with pytest.raises(InvalidInput) as caught:
        parse_operator(spec)
    return caught.value


def test_reads_a_spec():
    operator = parse_operator(SPEC)
    assert operator.name == "scale"
    assert operator.shapes == (
        BenchmarkShape(dims={"M": 128}),
        BenchmarkShape(dims={"M": 4096}, weight=2.0),
    )
    assert operator.ranges == {"M": (1, 8192)}
    assert operator.seeds == tuple(SPEC["seeds"])


def test_what_is_compared_with_is_said_and_changes_the_contract_only_then():
    spec, chosen = parse_operator(SPEC), parse_operator(changed(("baselines",), ["compile", "native"]))
    assert spec.baselines is None and "baselines" not in spec.model_dump()
    assert chosen.baselines == ("compile", "native") and chosen.digest != spec.digest
    assert parse_operator(chosen.model_dump(mode="json")) == chosen
    assert "did you mean 'max_autotune'" in refusal(changed(("baselines",), ["maxautotune"])).detail


def test_an_operator_reads_back_as_itself():
    operator = parse_operator(SPEC)
    again = parse_operator(operator.model_dump(mode="json"))
    assert again == operator
    assert again.digest == operator.digest


def test_a_whole_number_will_do_for_a_float_scalar_and_becomes_one():
    value = parse_operator(changed(("scalars", 0, "value"), 2)).scalars[0].value
    assert value == 2.0
    assert isinstance(value, float)


def test_a_misspelt_key_is_told_before_the_key_that_is_missing_for_it():
    spec = changed(("shapes",), ...) | {"shape": SPEC["shapes"]}
    assert refusal(spec).detail == "shape: unknown name; did you mean 'shapes'?"


def test_seeds_are_optional():
    assert parse_operator(changed(("seeds",), ...)).seeds == ()


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        (
            ("inputs", 0, "dtype"),
            "bf16",
            "inputs[0].dtype",
            "inputs[0].dtype: 'bf16' is not one of bool, int8, uint8, ",
        ),
        (("inputs", 0, "dtype"), "bf16", "inputs[0].dtype", "; did you mean 'bfloat16'?"),
        (("inputs", 0, "dtype"), "?", "inputs[0].dtype", "; write a dtype by torch's name, such as 'bfloat16'"),
        (("inputs", 0, "dytpe"), "int8", "inputs[0].dytpe", "inputs[0].dytpe: unknown name; did you mean 'dtype'?"),
        (("inputs", 0, "int"), 1, "inputs[0].int", "inputs[0].int: unknown name"),
        (("refrence",), "x", "refrence", "refrence: unknown name; did you mean 'reference'?"),
        (("int",), 1, "int", "int: unknown name"),
        (("zzz",), 1, "zzz", "zzz: unknown name; known here: name, entry, reference, inputs, outputs, scalars, seeds,"),
        (("precision", "allow_tf23"), True, "precision.allow_tf23", "unknown name; did you mean 'allow_tf32'?"),
        (("precision", "allow_tf32"), "yes", "precision.allow_tf32", "write true, false or 'convolutions'"),
        (("policy", "host"), "free", "policy.host", "'free' is not one of allocate, copy"),
        (("name",), ..., "name", "name is missing; write the operator's name in lower-case letters"),
        (("name",), "RMS Norm", "name", "not 'RMS Norm'; write the operator's name"),
        (("entry",), "class", "entry", "entry: 'class' is a Python keyword"),
        (("inputs", 0, "name"), ..., "inputs[0].name", "inputs[0].name is missing; write the argument's name"),
        (("inputs", 0, "shape"), ["M", 0], "inputs[0].shape[1]", "write a list of dimension names, sizes"),
        (("inputs", 0, "shape"), "M", "inputs[0].shape", "write a list of dimension names, sizes"),
        (("inputs", 0, "low"), "a", "inputs[0].low", "write the smallest value drawn, a number"),
        (("inputs", 0, "high"), "V", "inputs[0].high", "inputs[0].high: no input has a dimension 'V'"),
        (("inputs", 0, "dtype"), "int32", "inputs[0]", "inputs[0]: integer inputs need 'high'"),
        (("inputs", 0, "distribution"), "gauss", "inputs[0].distribution", "is not one of normal, uniform, integer"),
        (("inputs", 0, "distribution"), "integer", "inputs[0]", "distribution 'integer' needs an integer dtype"),
        (("inputs",), [], "inputs", "write at least one table, each with name, shape and dtype"),
        (("inputs",), ["x"], "inputs[0]", "write at least one table, each with name, shape and dtype"),
        (("outputs",), ..., "outputs", "outputs is missing; write at least one table"),
        (("scalars", 0, "value"), True, "scalars[0].value", "scalars[0].value: True is not of dtype 'float'"),
        (("scalars", 0, "value"), "two", "scalars[0].value", "scalars[0].value: two is not of dtype 'float'"),
        (("scalars", 0, "value"), [], "scalars[0].value", "write a number, true or false, or for an int an extent"),
        (("scalars", 0, "name"), "x", "inputs", "inputs: argument names must differ: x, x"),
        (("shapes",), [], "shapes", "write at least one table with a size of 1 or more for every dimension"),
        (("shapes",), 4096, "shapes", "write at least one table with a size of 1 or more for every dimension"),
        (("shapes", 0, "M"), "4096", "shapes[0].M", "shapes[0].M: must be a whole number, not '4096'; write"),
        (("shapes", 0, "M"), -1, "shapes[0].M", "a size of 1 or more for every dimension"),
        (("shapes", 0, "M"), 0, "shapes[0]", "input 'x' is empty; only shapes with work are timed"),
        (("shapes", 0, "M"), True, "shapes[0].M", "shapes[0].M: must be a whole number, not true"),
        (("shapes", 0, "M"), ..., "shapes[0]", "shapes[0]: gives no size for dimension 'M'"),
        (("shapes", 0, "wieght"), 2, "shapes[0].wieght", "shapes[0].wieght: no input or scalar has a dimension"),
        (("shapes", 1, "weight"), 0, "shapes[1].weight", "write the shape's weight in the objective"),
        (("ranges", "M"), [8, 2], "ranges.M", "ranges.M: 8 is more than 2; write [smallest, largest]"),
        (("ranges", "M"), [1], "ranges.M[1]", "ranges.M[1] is missing; write [smallest, largest]"),
        (("ranges", "K"), [1, 2], "ranges.K", "ranges.K: no input or scalar has a dimension 'K'"),
        (("backward",), True, "outputs[0].shape", "outputs[0].shape: write it, as the output's gradient is an input"),
        (("backward",), "yes", "backward", "write true to judge gradients as well, or false"),
        (("reference",), "def scale(x:\n", "reference", "reference: not valid Python: line 1: "),
        (("reference",), "def scael(x, factor): pass\n", "reference", "no function 'scale'; did you mean 'scael'?"),
        (("reference",), "def scale(x): pass\n", "reference", "takes 1 arguments, but inputs and scalars are 2"),
        (("reference",), "def scale(x, f, g=1, *, h=2): return (", "reference", "not valid Python"),
        (("reference",), "def scale(x, f, g): pass\n", "reference", "takes 3 arguments, but inputs and scalars are 2"),
        (("reference",), "x = 'a\0b'\n", "reference", "reference: not valid Python"),
        (("reference",), "#" * 70000, "reference", "may have at most 65536 characters"),
        (("seeds",), ["def scale(x: return"], "seeds[0]", "seeds[0]: not valid Python: line 1: "),
        (("seeds",), "def scale(): pass", "seeds", "write a list of kernels to start from"),
        (("inputs", 0, "low"), float("inf"), "spec", "a value that JSON cannot express"),
        (("name",), datetime.date(2026, 1, 1), "spec", "a value that JSON cannot express"),
    ],
)
def test_refusals_name_the_field_and_what_would_be_right(path, value, field, message):
    error = refusal(changed(path, value))
    assert message in error.detail
    assert error.field == field


@pytest.mark.parametrize("source", ["def scale(x, f, g=1): pass", "def scale(*all): pass", "def scale(x, /, f): pass"])
def test_a_reference_may_have_more_parameters_than_are_passed(source):
    assert parse_operator(changed(("reference",), source)).reference == source


def test_refusals_are_short_whatever_was_sent():
    assert len(refusal(changed(("inputs", 0, "shape"), "M" * 100_000)).detail) < 300


def test_a_document_nested_without_end_is_bad_input():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert "JSON cannot express" in refusal(changed(("scalars",), deep)).detail


def test_a_lone_surrogate_is_bad_input():
    assert refusal(changed(("name",), "\ud800")).field == "spec"


def test_every_field_has_words_for_what_is_right():
    tables: dict[str, type[BaseModel]] = {
        "": Operator,
        "inputs.": Input,
        "outputs.": Output,
        "scalars.": Scalar,
        "precision.": Precision,
        "policy.": Policy,
    }
    fields = {f"{prefix}{field}" for prefix, table in tables.items() for field in table.model_fields}
    assert fields <= set(RIGHT)
