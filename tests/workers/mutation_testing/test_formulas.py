"""Composite operations written out compute what they did, and round where they did."""

import pytest
import torch

from tests.workers.mutation_testing.references import LAYERS, operator, results, sketch_of
from workers.mutation_testing.formulas import FORMULAS, written_out

COMPOSED = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "var": "variance",
    "native_layer_norm": "layer_norm",
    "silu": "silu",
    "gelu": "gelu",
    "addmm": "linear",
    **{name: name for name in LAYERS},
}


def test_every_formula_is_tried():
    assert set(COMPOSED) == set(FORMULAS)


@pytest.mark.parametrize(("operation", "name"), [*COMPOSED.items(), ("gelu", "gelu_erf")])
def test_a_formula_equals_the_operation(operation, name):
    sketch, inputs = sketch_of(operator(name))
    graph = written_out(sketch)
    assert operation in (node.name for node in sketch.graph.nodes)
    assert operation not in (node.name for node in graph.nodes)
    for got, right in zip(results(graph, inputs, double=True), results(sketch.graph, inputs, double=True), strict=True):
        assert torch.allclose(got, right, rtol=1e-12, atol=1e-14)
    for got, right in zip(results(graph, inputs), results(sketch.graph, inputs), strict=True):
        assert got.dtype == right.dtype and torch.allclose(got, right, rtol=1e-2, atol=1e-5)


def test_a_formula_s_result_may_lie_otherwise_in_memory():
    """A norm packs what it is given; its formula leaves rows apart, and torch's views would not fit."""
    sketch, inputs = sketch_of(operator("moved_layer_norm"))
    graph = written_out(sketch)
    for got, right in zip(results(graph, inputs), results(sketch.graph, inputs), strict=True):
        assert torch.allclose(got, right, rtol=1e-5, atol=1e-6)


def test_narrow_arithmetic_is_done_in_float32_and_rounded_once():
    sketch, _ = sketch_of(operator("linear"))
    dtypes = [node.kwargs["dtype"].dtype for node in written_out(sketch).nodes if node.name == "_to_copy"]
    assert dtypes == ["float32", "float32", "float32", "bfloat16"]


def test_what_only_moves_is_left_alone():
    sketch, _ = sketch_of(operator("copy"))
    assert written_out(sketch) == sketch.graph
