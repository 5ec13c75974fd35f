"""The text that draws ordered values for people keeps the order that the spec promises."""

import pytest
import torch

from service.operators.example_inputs import ORDERED_VALUES, example_inputs
from tests.workers.rogues.ordered import CACHE_WRITE, LINEAR, SEGMENT_SUM


def ordered(order: str, sizes: tuple[int, ...], low: float | None, high: float) -> torch.Tensor:
    namespace: dict = {"torch": torch}
    exec(ORDERED_VALUES, namespace)
    return namespace["ordered"](order, sizes, low, high, "cpu", torch.Generator().manual_seed(3))


@pytest.mark.parametrize("sizes", [(7,), (4, 7)])
def test_ordered_values_hold(sizes: tuple[int, ...]) -> None:
    offsets, ends, counts = (ordered(each, sizes, None, 30).reshape(-1, 7) for each in ("offsets", "ends", "counts"))
    assert (offsets[:, 0] == 0).all() and (offsets[:, -1] == 30).all() and (offsets.diff(dim=1) >= 0).all()
    starts = ordered("starts", sizes, None, 30).reshape(-1, 7)
    assert (starts[:, 0] == 0).all() and (starts <= 30).all() and (starts.diff(dim=1) >= 0).all()
    assert (ends[:, -1] == 30).all() and (counts.sum(dim=1) == 30).all() and (counts >= 0).all()
    ascending, different = (ordered(each, sizes, 2.0, 11.0).reshape(-1, 7) for each in ("sorted", "unique"))
    assert (ascending.diff(dim=1) >= 0).all() and (different.sort(dim=1).values.diff(dim=1) > 0).all()
    assert all(((values >= 2) & (values < 11)).all() for values in (ascending, different))


def test_inputs_are_listed_with_bounds_and_order() -> None:
    assert example_inputs(SEGMENT_SUM, {"T": 5, "N": 3, "B": 2}) == [
        ((5, 3), "float32", None, None, None),
        ((3,), "int32", None, 5, "offsets"),
    ]
    assert example_inputs(CACHE_WRITE, {"T": 5, "S": 3})[2] == ((5,), "int64", None, 8, "unique")
    assert example_inputs(LINEAR, {"M": 5, "N": 3, "scale": 0, "bias": 1})[1:] == [
        None,
        ((3,), "float32", None, None, None),
    ]
