"""The floor counts what every kernel has to read, and nothing that an honest one may leave out."""

import pytest

from tests.gpu.contracts import operators
from tests.workers.baselines.catalogue import graph_of
from workers.floors import floor_bytes
from workers.protocol import Operator, Shape


def counted(name: str) -> float:
    """Share of the bytes of an operator's inputs that the floor counts."""
    operator = operators()[name]
    shape = Shape(dims=operator.shapes[0].dims)
    return floor_bytes(operator, graph_of(operator, shape)) / operator.input_bytes(shape.dims)


@pytest.mark.parametrize("name", ["gelu", "softmax", "rmsnorm", "cross_entropy", "matmul", "swiglu_backward"])
def test_what_every_element_of_is_needed_counts(name: str) -> None:
    assert counted(name) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", ["paged_decode", "moe_swiglu", "ternary_matmul", "sliding_window_attention"])
def test_what_a_value_may_spare_does_not_count(name: str) -> None:
    assert counted(name) == 0


@pytest.mark.parametrize(
    ("reference", "needed"),
    [
        ("x @ y", "xy"),
        ("x[:, :4] @ y[:4]", ""),
        ("torch.relu(x) @ y", "x"),
        ("torch.relu(x) @ torch.relu(y)", ""),
        ("x @ y.tril()", ""),
        ("torch.where(x > 0, x, 0.0) * y", ""),
        ("x.masked_fill(y > 0, 0.0) + y", "y"),
        ("torch.softmax(x, -1) @ y", "x"),
        ("torch.exp(x) / y", "x"),
        ("x / torch.exp(y)", "xy"),
        ("x.cumsum(-1) + y.clone()", "xy"),
        ("x.clone().mul_(y) + y", ""),
        ("torch.zeros_like(x) * y", ""),
        ("x", "x"),
    ],
)
def test_a_reference_says_what_is_needed(reference: str, needed: str) -> None:
    square = {"shape": ["N", "N"], "dtype": "float32"}
    operator = Operator.model_validate(
        {
            "name": "f",
            "entry": "f",
            "reference": f"import torch\n\ndef f(x, y):\n    return {reference}\n",
            "inputs": [{"name": "x", **square}, {"name": "y", **square}],
            "outputs": [{"name": "z", "dtype": "float32"}],
            "shapes": [{"dims": {"N": 8}}],
            "ranges": {"N": [8, 8]},
        }
    )
    graph = graph_of(operator, Shape(dims={"N": 8}))
    assert floor_bytes(operator, graph) == len(needed) * 8 * 8 * 4
