"""Type hints give example arguments."""

import inspect
from typing import Annotated

import pytest
import torch

from workers.kernelbench.hints import hinted


class Jaxtyped:
    """A hint as jaxtyping makes it."""

    dtypes = ["float16"]
    dim_str = "rows 8"


def signature(**hints: object) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind, annotation=hint) for name, hint in hints.items()])


def shapes(given: inspect.Signature, **namespace: int) -> list[tuple[tuple[int, ...], torch.dtype]]:
    found = hinted(given, namespace)
    assert found is not None
    return [(tuple(each.shape), each.dtype) for each in found.arguments if isinstance(each, torch.Tensor)]


def test_hints_say_dtypes_and_sizes() -> None:
    given = signature(x="bf16[M, 16]", y=Annotated[torch.Tensor, "float32[M=32, N]"], z=Jaxtyped)
    assert shapes(given, M=32, N=7) == [
        ((32, 16), torch.bfloat16),
        ((32, 7), torch.float32),
        ((1024, 8), torch.float16),
    ]
    found = hinted(given, {"M": 32, "N": 7})
    assert found is not None and {each.name: each.places for each in found.dimensions} == {
        "M": ((0, 0), (1, 0)),
        "N": ((1, 1),),
        "rows": ((2, 0),),
    }


def test_sizes_without_numbers_differ() -> None:
    product = signature(x="f32[M, K]", y="f32[K, N]")
    assert shapes(product) == [((1024, 1152), torch.float32), ((1152, 1280), torch.float32)]


def test_products_and_sums_have_the_size_of_their_names_and_are_no_dimension() -> None:
    found = hinted(signature(x="f32[B, D]", w="f32[3 * D, D]", b="f32[D+1]", z="f32[2*E]"), {"D": 40})
    assert found is not None
    sizes = [tuple(each.shape) for each in found.arguments if isinstance(each, torch.Tensor)]
    assert sizes == [(1024, 40), (120, 40), (41,), (2304,)]
    assert {each.name: each.places for each in found.dimensions} == {"B": ((0, 0),), "D": ((0, 1), (1, 1))}


@pytest.mark.parametrize("hint", [torch.Tensor, "int64[M]", "f32", "f33[M]", inspect.Parameter.empty])
def test_other_hints_are_none(hint: object) -> None:
    assert hinted(signature(x=hint), {}) is None and hinted(signature(), {}) is None
