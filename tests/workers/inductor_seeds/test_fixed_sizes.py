"""A seed calls kernels for the first shape where it has that shape, and only there."""

from types import SimpleNamespace

import pytest

from tests.workers.rogues.ordered import operator, tensor
from workers.inductor_seeds.fixed_sizes import MOST_KERNELS, at_first_shape, chosen_by_sizes
from workers.protocol import Operator

INPUTS = [tensor("x", "M", "K"), tensor("w", "M+1", 4)]
SHAPES = [{"dims": {"M": 8, "K": 5}}]


def scaled(**more: object) -> Operator:
    settings = {"shapes": SHAPES, "ranges": {"M": (1, 9)}, **more}
    return operator("scaled", "def scaled(x, w):\n    return x * 2\n", INPUTS, **settings)


def test_one_shape_is_an_operator_of_its_own() -> None:
    fixed = at_first_shape(scaled(), 3)
    assert fixed is not None and not fixed.ranges and fixed.entry == "scaled_fixed"
    namespace: dict = {}
    exec(fixed.reference.replace("import torch", ""), namespace)
    assert namespace["scaled_fixed"](3, 1) == 6


def test_a_long_name_is_cut() -> None:
    name = "scaled" * 10
    long = operator(name, f"def {name}(x, w):\n    return x * 2\n", INPUTS, shapes=SHAPES, ranges={"M": (1, 9)})
    fixed = at_first_shape(long, 3)
    assert fixed is not None and len(fixed.entry) == 64 and fixed.entry.endswith("scal_fixed")


def test_several_shapes_sizes_that_do_not_vary_and_whole_models_have_none() -> None:
    assert at_first_shape(scaled(shapes=[*SHAPES, {"dims": {"M": 2, "K": 5}}]), 3) is None
    assert at_first_shape(scaled(ranges={}), 3) is None
    assert at_first_shape(scaled(), MOST_KERNELS + 1) is None


@pytest.mark.parametrize(("sizes", "called"), [((8, 5, 9), "fixed"), ((7, 5, 8), "all"), ((8, 5, 8), "all")])
def test_sizes_choose_the_function(sizes: tuple[int, int, int], called: str) -> None:
    of = scaled()
    fixed = at_first_shape(of, 1)
    assert fixed is not None
    sources = ["def scaled(x, w):\n    return 'all'\n", "def scaled_fixed(x, w):\n    return 'fixed'\n"]
    namespace: dict = {}
    exec(chosen_by_sizes(of, sources[0], fixed, sources[1]), namespace)
    x, w = SimpleNamespace(shape=sizes[:2]), SimpleNamespace(shape=(sizes[2], 4))
    assert namespace["scaled"](x, w) == called
