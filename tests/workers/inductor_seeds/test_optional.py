"""A seed of an operator with optional inputs serves every combination of given and absent ones."""

import pytest

from tests.workers.rogues.ordered import LINEAR, operator, tensor
from workers.inductor_seeds.optional import joined, merged, variants_of
from workers.tracer.refusal import TraceRefused


def test_each_combination_is_an_operator_of_its_own() -> None:
    variants = list(variants_of(LINEAR))
    assert [each.absent for each in variants] == [(), ("bias",), ("scale",), ("scale", "bias")]
    assert [[item.name for item in each.operator.inputs] for each in variants] == [
        ["x", "scale", "bias"],
        ["x", "scale"],
        ["x", "bias"],
        ["x"],
    ]
    assert all(each.operator.presences == () and set(each.operator.shapes[0].dims) == {"M", "N"} for each in variants)
    for variant, expected in zip(variants, (2 * 3 + 1, 2 * 3, 2 + 1, 2), strict=True):
        namespace: dict = {}
        exec(variant.operator.reference.replace("import torch", ""), namespace)
        given = [value for name, value in {"x": 2, "scale": 3, "bias": 1}.items() if name not in variant.absent]
        assert namespace[variant.operator.entry](*given) == expected


@pytest.mark.parametrize("scale", [3, None])
@pytest.mark.parametrize("bias", [1, None])
def test_the_entry_calls_the_function_for_its_arguments(scale: int | None, bias: int | None) -> None:
    variants = list(variants_of(LINEAR))
    sources = [f"def {each.operator.entry}(*given):\n    return {each.operator.entry!r}, given\n" for each in variants]
    namespace: dict = {}
    exec(joined(LINEAR, variants, sources), namespace)
    called, given = namespace["row_affine"](2, scale, bias)
    assert given == tuple(value for value in (2, scale, bias) if value is not None)
    assert [name for name in ("scale", "bias") if name in called] == [
        name for name, value in (("scale", scale), ("bias", bias)) if value is None
    ]


def test_an_absent_input_takes_its_own_dimensions_along() -> None:
    inputs = [tensor("x", "M"), tensor("mask", "M", "K", optional=True)]
    shapes = [{"dims": {"M": 4, "K": size, "mask": 1}} for size in (2, 3)]
    masked = operator("f", "def f(x, mask):\n    return x\n", inputs, shapes=shapes, ranges={"M": (1, 4), "K": (1, 3)})
    without = list(variants_of(masked))[1].operator
    assert [shape.dims for shape in without.shapes] == [{"M": 4}] and set(without.ranges) == {"M"}


def test_many_optional_inputs_are_refused() -> None:
    names = ["a", "b", "c", "d"]
    inputs = [tensor("x", "M"), *(tensor(name, "M", optional=True) for name in names)]
    shapes = [{"dims": {"M": 4, **dict.fromkeys(names, 1)}}]
    many = operator("f", "def f(x, a, b, c, d):\n    return x\n", inputs, shapes=shapes)
    with pytest.raises(TraceRefused, match="4 optional inputs"):
        list(variants_of(many))


def test_sources_share_imports_and_equal_functions() -> None:
    start = "import torch\nimport triton\n\n\ndef both():\n    pass\n\n\n"
    one, other = (f"{start}def {name}():\n    pass\n" for name in "fg")
    assert merged([one, other]).split("\n\n\n") == [
        "import torch\nimport triton",
        "def both():\n    pass",
        "def f():\n    pass",
        "def g():\n    pass\n",
    ]
