"""A seed is valid at all sizes of its operator, or refused in words."""

import pytest
import torch

from tests.workers.inductor_seeds.test_lowering import lowered
from tests.workers.tracer.jobs import operator
from workers.inductor_seeds.all_sizes import ELEMENTS, agree, require_all_sizes

RANGES = {"M": [1, 640]}


def scaled(body: str, **changes):
    """An operator with a reference of one line, whose rows vary."""
    reference = f"import torch\n\n\ndef scale(x, w):\n    return {body}\n"
    return operator(reference=reference, **({"ranges": RANGES} | changes))


@pytest.mark.parametrize(
    "body",
    [
        "x * w if x.shape[0] > 4 else x",
        "x * w if x.shape[0] < 600 else x + w",
        "x * w if x.shape[0] * x.shape[1] > 5000 else x",
    ],
)
def test_a_reference_with_other_results_on_either_side_of_a_size_is_refused(body: str) -> None:
    with pytest.raises(AssertionError, match="decides by the size 'M': a seed would be valid for some values only"):
        lowered(scaled(body))


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ("x * w if x.shape[0] > 4 else w * x", {}),
        ("torch.cdist(x, x)", {}),
        ("x * w if x.shape[1] > 4 else x", {}),
        ("x * w if x.shape[0] > 4 else x", {"ranges": {"M": [8, 640]}}),
    ],
)
def test_formulas_with_the_same_results_and_sizes_that_never_are_have_seeds(body: str, changes: dict) -> None:
    assert lowered(scaled(body, **changes))["kernels"]


def test_a_graph_agrees_if_it_has_the_reference_s_results_at_other_sizes() -> None:
    of = scaled("x * w")
    for traced, expected in (
        (lambda x, w: w * x * (1 + 1e-6), True),
        (lambda x, w: x, False),
        (lambda x, w: (x * w)[:1], False),
        (lambda x, w: (x * w).double(), False),
        (lambda x, w: (x * w, x), False),
        (lambda x, w: (x * w).view(64, 128), False),
    ):
        assert agree(of, {"M": 3}, lambda x, w: x * w, traced) is expected


def test_what_a_cpu_cannot_tell_is_no_difference() -> None:
    of = scaled("x * w")

    def refuses(*_: torch.Tensor) -> None:
        raise NotImplementedError("no kernel for a CPU")

    assert agree(of, {"M": 3}, refuses, lambda x, w: x)
    assert agree(of, {"M": 3}, lambda x, w: x * w, refuses)
    assert agree(of, {"M": ELEMENTS}, lambda x, w: x * w, lambda x, w: x)


def test_a_size_that_became_a_number_is_told() -> None:
    with pytest.raises(AssertionError, match="uses the size 'M' as a Python number"):
        lowered(scaled("x * w if int(x.shape[0]) in (64, 3) else x"))


def test_numbers_are_sizes_of_one_value() -> None:
    of = scaled("x * w")
    assert require_all_sizes(of, dict(of.shapes[0].dims), [], lambda x, w: x, lambda x, w: x) is None
