"""Sizes of real calls become benchmark shapes with weights."""

import json

import pytest

from service.errors import InvalidInput
from service.operators.calls import shapes_of_calls, with_calls, with_start
from service.operators.catalogue import load_operator
from workers.protocol import Operator

RMSNORM = load_operator("rmsnorm")


def read(*calls: object, operator: Operator = RMSNORM) -> dict[tuple[int, int], float]:
    shapes, _ = shapes_of_calls(operator, json.dumps(calls))
    return {(shape.dims["M"], shape.dims["N"]): round(shape.weight, 3) for shape in shapes}


def test_calls_add_up_in_whatever_form() -> None:
    calls = [
        {"M": 64, "N": 1024, "count": 5},
        [[64, 1024], [1024]],
        {"shapes": {"x": [128, 512]}, "weight": 2},
        {"M": 128, "N": 512},
        {"M": 1, "N": 4096},
    ]
    assert read(*calls) == {(64, 1024): 0.6, (128, 512): 0.3, (1, 4096): 0.1}
    shapes, share = shapes_of_calls(RMSNORM, json.dumps({"calls": [{"M": 64, "N": size} for size in range(1, 17)]}))
    assert len(shapes) == 8 and share == 0.5


@pytest.mark.parametrize(
    "call, said",
    [
        ({"M": 64}, "gives no size for 'N'; the dimensions are M, N"),
        ({"M": 64, "N": 8, "K": 3}, "has a size for 'K'; the dimensions"),
        ({"M": 64, "N": 0}, "the size of N is no whole number"),
        ({"M": 64, "N": 8, "count": -1}, "no number of calls above 0"),
        ({"shapes": [[64, 8], [9]]}, "the shape \\[9\\] of 'weight' is not \\[N\\] with N = 8"),
        ({"m": 64, "n": 8}, "has a size for 'm'; the dimensions are M, N"),
        ({"shapes": [[64]]}, "is not \\[M, N\\]"),
        ({"shapes": 3}, "is a list of 2 shapes"),
        (3, "call 0 is no object; write a list of calls"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(call)


def test_sizes_of_products_and_sums_follow_from_their_parts() -> None:
    inputs = [{"name": "q", "shape": ["T", "G*R", "64*D"]}, {"name": "k", "shape": ["G", "B+1"]}]
    fields = {"inputs": [{**item, "dtype": "float32"} for item in inputs], "ranges": {}}
    sizes = {"T": 1, "G": 1, "R": 1, "D": 1, "B": 1}
    operator = Operator.model_validate({**RMSNORM.model_dump(), **fields, "shapes": [{"dims": sizes}]})
    (shape,), _ = shapes_of_calls(operator, json.dumps([[[9, 8, 128], [4, 6]]]))
    assert shape.dims == {"T": 9, "G": 4, "R": 2, "D": 2, "B": 5}
    for shapes in ([[9, 7, 128], [4, 6]], [[9, 8, 100], [4, 6]], [[9, 8, 128], [4, 1]]):
        with pytest.raises(InvalidInput, match="is not \\["):
            shapes_of_calls(operator, json.dumps([shapes]))


def test_lines_single_calls_and_inputs_by_name_are_calls() -> None:
    lines = '{"M": 64, "N": 1024, "count": 3}\n\n{"x": [128, 512], "weight": [512]}\n'
    shapes, _ = shapes_of_calls(RMSNORM, lines)
    assert [(dict(shape.dims), shape.weight) for shape in shapes] == [
        ({"M": 64, "N": 1024}, 0.75),
        ({"M": 128, "N": 512}, 0.25),
    ]
    assert len(shapes_of_calls(RMSNORM, '{"M": 64, "N": 8, "weight": 2}')[0]) == 1


@pytest.mark.parametrize("text, said", [("{", "not valid JSON"), ("[]", "no list of calls"), ("3", "no list of calls")])
def test_a_file_in_another_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        shapes_of_calls(RMSNORM, text)


def test_ranges_reach_as_far_as_the_calls() -> None:
    shapes, _ = shapes_of_calls(RMSNORM, json.dumps([{"M": 3, "N": 100_000}]))
    called = with_calls(RMSNORM, shapes)
    assert dict(called.ranges) == {"M": (1, 8192), "N": (1, 100_000)} and called.shapes == shapes


def test_a_kernel_to_start_from_is_the_first_seed_and_the_only_baseline() -> None:
    own = "def rmsnorm(x, weight):\n    return x\n"
    started = with_start(RMSNORM, own)
    assert started.seeds == (own, *RMSNORM.seeds) and not started.has_baselines and RMSNORM.has_baselines
    assert with_start(started, own).seeds == started.seeds
    with pytest.raises(ValueError, match="'seed' stands alone"):
        Operator.model_validate({**started.model_dump(), "baselines": ("seed", "compile")})
