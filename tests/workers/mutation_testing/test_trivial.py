"""Trivial answers have the declared dtypes and shapes, and are wrong in one output at a time."""

import pytest
import torch

from tests.workers.mutation_testing.references import REFERENCES, graphs_of, operator
from workers.mutation_testing.cases import MutationCase
from workers.mutation_testing.trivial import DEPENDENT, trivial_answers


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
