"""Honest and trivial answers."""

import pytest
import torch

from tests.workers.mutation_testing.references import REFERENCES, graphs_of, operator, results, sketch_of
from workers.mutation_testing.answers import DEPENDENT, HONEST_ANSWERS, honest_graphs, trivial_answers
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.cases import MutationCase
from workers.mutation_testing.formulas import written_out

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


def case_of(name: str, draw: str = "normal", **point: int) -> MutationCase:
    of = operator(name)
    return MutationCase.of(of, graphs_of(of, point)[0], draw, "seed")


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("draw", ["normal", "heavy", "planted"])
def test_answers_have_the_right_types(name, draw):
    case = case_of(name, draw)
    for label, answer in trivial_answers(case):
        forms = [(tensor.dtype, tensor.shape) for tensor in answer]
        assert forms == [(tensor.dtype, tensor.shape) for tensor in case.reference.native], label


def test_what_is_tried():
    answers = dict(trivial_answers(case_of("rmsnorm")))
    assert set(answers) == {
        "zeros", "ones", "uninitialised memory", "copy of 'x'", "copy of 'w'", "first row for all", "mean everywhere",
        "noise of equal mean and spread", "right answer to other inputs",
    }  # fmt: skip
    assert answers["uninitialised memory"][0].isnan().all()
    assert torch.equal(answers["copy of 'w'"][0][3], case_of("rmsnorm").inputs[1])
    assert {label for label in answers if label.startswith(DEPENDENT)} == {
        "copy of 'x'",
        "copy of 'w'",
        "first row for all",
    }


def test_a_single_number_has_no_mean_or_row_of_its_own():
    labels = {label for label, _ in trivial_answers(case_of("loss"))}
    assert {"first row for all", "mean everywhere", "noise of equal mean and spread"}.isdisjoint(labels)
    assert {"zeros", "copy of 'x'", "right answer to other inputs"} <= labels


def test_uninitialised_integers_are_minus_one():
    answers = dict(trivial_answers(case_of("largest")))
    assert (answers["uninitialised memory as 'out0'"][0] == -1).all()


def test_other_outputs_are_right():
    case = case_of("largest")
    for label, answer in trivial_answers(case):
        other = 1 if label.endswith("'out0'") else 0
        assert torch.equal(answer[other], case.reference.native[other])


def test_inputs_of_other_sizes_are_repeated():
    case = case_of("product", M=3, K=2, N=5)
    copied = dict(trivial_answers(case))["copy of 'x'"][0]
    assert copied.flatten().tolist() == pytest.approx(case.inputs[0].flatten().repeat(3)[:15].tolist())
