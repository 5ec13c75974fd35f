"""Honest implementations round elsewhere than the reference, and are right."""

import pytest
import torch

from tests.workers.mutation_testing.references import graphs_of, operator, results, sketch_of
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import MutationCase
from workers.mutation_testing.formulas import written_out
from workers.mutation_testing.honest import HONEST_ANSWERS, honest_graphs

SUMMING = ["rmsnorm", "softmax", "layer_norm", "linear", "product", "loss"]


@pytest.mark.parametrize("name", SUMMING)
def test_sums_run_in_other_orders(name):
    sketch, inputs = sketch_of(operator(name), K=64, N=512)
    graphs = honest_graphs(sketch, TypedGraph.of(written_out(sketch), inputs))
    assert {"sums from the last element to the first", "sums in parts"} <= set(graphs)
    right = results(sketch.graph, inputs, double=True)
    for graph in graphs.values():
        assert all(map(torch.allclose, results(graph, inputs, double=True), right))
        assert [value.dtype for value in results(graph, inputs)] == [
            value.dtype for value in results(sketch.graph, inputs)
        ]


def test_the_order_changes_the_last_bits():
    sketch, inputs = sketch_of(operator("product"), K=64)
    graphs = honest_graphs(sketch, sketch)
    right = results(sketch.graph, inputs)[0]
    assert not torch.equal(results(graphs["sums in parts"], inputs)[0], right)


def test_a_reference_without_sums_and_composites_has_no_other_form():
    sketch, _ = sketch_of(operator("added"))
    assert honest_graphs(sketch, sketch) == {}


def test_answers_at_hand():
    of = operator("softmax")
    case = MutationCase.of(of, graphs_of(of)[0], "normal", "seed")
    native, rounded = (make(case) for make in HONEST_ANSWERS.values())
    assert native is case.reference.native
    assert rounded[0].dtype == torch.bfloat16
    assert torch.equal(rounded[0], case.reference.expected[0].bfloat16())
