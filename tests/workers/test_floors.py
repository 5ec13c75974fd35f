"""The floor counts what every kernel has to read, and nothing that an honest one may leave out."""

import json
from pathlib import Path

import pytest

from tests.gpu.contracts import operators
from tests.workers.baselines.catalogue import graph_of
from tests.workers.sheets import H100
from workers.floors import floor_bytes, floor_flops, floor_us
from workers.protocol import Operator, Shape
from workers.targets import TARGETS


def counted(name: str) -> float:
    """Share of the bytes of an operator's inputs that the floor counts."""
    operator = operators()[name]
    shape = Shape(dims=operator.shapes[0].dims)
    return floor_bytes(operator, graph_of(operator, shape)) / operator.input_bytes(shape.dims)


def square(reference: str) -> Operator:
    """An operator with two square inputs, `x` and `y`."""
    given = {"shape": ["N", "N"], "dtype": "float32"}
    return Operator.model_validate(
        {
            "name": "f",
            "entry": "f",
            "reference": f"import torch\n\ndef f(x, y):\n    return {reference}\n",
            "inputs": [{"name": "x", **given}, {"name": "y", **given}],
            "outputs": [{"name": "z", "dtype": "float32"}],
            "shapes": [{"dims": {"N": 8}}],
            "ranges": {"N": [8, 8]},
        }
    )


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
    operator = square(reference)
    graph = graph_of(operator, Shape(dims={"N": 8}))
    assert floor_bytes(operator, graph) == len(needed) * 8 * 8 * 4


@pytest.mark.parametrize(
    ("reference", "is_needed"),
    [
        ("x @ y", True),
        ("torch.relu(x @ y.t())", True),
        ("torch.softmax(x @ y, -1) @ x", True),
        ("torch.sigmoid(x @ y) * (y @ x)", True),
        ("(x @ y) / torch.exp(x) + y", True),
        ("torch.logsumexp(x @ y, -1, keepdim=True) - y", True),
        ("torch.softmax((x @ y).masked_fill(x > 0, float('-inf')), -1) @ y", False),
        ("torch.log(torch.exp(x @ y - (x @ x.t()).amax()).sum(-1, keepdim=True)) - y", False),
        ("torch.log(torch.exp(x @ y - (y @ x).amax()).sum(-1, keepdim=True)) - y", True),
        ("(x @ y) @ x", False),
        ("(x @ y) @ (y @ x)", False),
        ("(x @ y).sum(-1, keepdim=True) + x", False),
        ("(x @ y).tril()", False),
        ("x.tril() @ y", False),
        ("(x @ y) * torch.relu(x)", False),
        ("(x @ y)[:1] + x", False),
        ("x @ x.t()", False),
        ("x @ y + y @ x", False),
        ("torch.relu(x @ y) * torch.exp(x @ y)", False),
        ("torch.relu(x) @ y", False),
        ("x + y", False),
    ],
)
def test_products_count_where_none_of_them_can_be_spared(reference: str, is_needed: bool) -> None:
    operator = square(reference)
    graph = graph_of(operator, Shape(dims={"N": 8}))
    assert floor_flops(operator, graph) == ((graph.matrix_flops or 0) if is_needed else 0)


@pytest.mark.parametrize("name", ["matmul", "gate_up_swiglu", "linear_cross_entropy"])
def test_products_that_every_kernel_does_count(name: str) -> None:
    operator = operators()[name]
    graph = graph_of(operator, Shape(dims=operator.shapes[0].dims))
    assert floor_flops(operator, graph) == graph.matrix_flops > 0


@pytest.mark.parametrize(
    "name", ["moe_swiglu", "sliding_window_attention", "w4a16_matmul", "softmax", "monarch_matmul"]
)
def test_products_that_a_kernel_may_spare_do_not_count(name: str) -> None:
    operator = operators()[name]
    assert floor_flops(operator, graph_of(operator, Shape(dims=operator.shapes[0].dims))) == 0


MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "card_judgements_honest.json"
"""Times of honest kernels on an H100 80GB HBM3."""


@pytest.mark.parametrize("name", ["cross_entropy", "gate_up_swiglu", "matmul", "softmax"])
def test_no_honest_kernel_was_ever_below_its_floor(name: str) -> None:
    operator, figures = operators()[name], TARGETS["sm_90"].of_card(H100)
    document = json.loads(MEASURED.read_text())
    assert document["machine"]["gpu"] == H100.name
    rows = [row for row in document["rows"] if row["operator"] == name and row["outcome"] == "correct"]
    times = {shape["shape"]: 0.0 for row in rows for shape in row["shapes"]}
    for key in times:
        dims = {dim: int(size) for dim, size in (part.split("=") for part in key.split(","))}
        times[key] = floor_us(operator, graph_of(operator, Shape(dims=dims)), figures)
    found = [(shape["mid_us"], times[shape["shape"]]) for row in rows for shape in row["shapes"]]
    assert len(found) > 5 and all(mid_us > floor > 0 for mid_us, floor in found)


def test_a_peak_that_is_not_known_refuses_nothing() -> None:
    silent = H100.model_copy(update={"clock_mhz": None, "memory_clock_mhz": None})
    operator = operators()["matmul"]
    graph = graph_of(operator, Shape(dims=operator.shapes[0].dims))
    assert floor_us(operator, graph, TARGETS["sm_90"].of_card(silent)) == 0
