"""Trials: what becomes of each answer, and what is left when time is up."""

from collections import Counter

import pytest

from tests.workers.mutation_testing.references import graphs_of, operator
from workers.mutation_testing.fixture import ShapeFixture
from workers.mutation_testing.runs import honest_entries, mutant_entries, trivial_entries

POINTS = ({"M": 33, "N": 130}, {"M": 3, "N": 7}, {"M": 1, "N": 2})


def entries(trials, name, is_up=lambda: False, **extra):
    of = operator(name, **extra)
    points = [{size: at[size] for size in at if size in of.dimensions} for at in POINTS]
    return {entry.name: entry for entry in trials(ShapeFixture.all_of(of, graphs_of(of, *points)), is_up)}


def never():
    return False


def at_once():
    return True


@pytest.mark.parametrize("name", ["rmsnorm", "softmax", "linear", "loss", "turned", "largest", "finite"])
def test_right_answers_pass_and_trivial_ones_fail(name):
    right, trivial = entries(honest_entries, name), entries(trivial_entries, name)
    assert {entry.verdict for entry in right.values()} == {"passed"}
    assert {entry.verdict for entry in trivial.values()} == {"killed"}
    assert all(entry.check and 0 < entry.failures <= entry.cases for entry in trivial.values())


@pytest.mark.parametrize("name", ["rmsnorm", "softmax", "linear", "loss", "turned", "largest", "product", "masked"])
def test_mutants_fail_or_are_no_mutants(name):
    found = entries(mutant_entries, name)
    assert Counter(entry.verdict for entry in found.values())["killed"] > 15
    assert [entry.name for entry in found.values() if entry.verdict == "survived"] == []
    assert all(entry.failures == 1 for entry in found.values() if entry.verdict == "killed")


def test_an_operator_that_copies_is_answered_by_a_copy():
    trivial = entries(trivial_entries, "copy")
    assert trivial["copy of 'x'"].verdict == "equivalent"
    assert {entry.verdict for label, entry in trivial.items() if label != "copy of 'x'"} == {"killed"}


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("zeros", {"zeros", "right answer to other inputs"}),
        ("constant", {"right answer to other inputs"}),
        ("never", {"zeros", "right answer to other inputs"}),
        ("undefined", {"uninitialised memory", "right answer to other inputs"}),
    ],
)
def test_answers_without_inputs_survive_where_inputs_do_not_matter(name, accepted):
    trivial = entries(trivial_entries, name)
    assert {label for label, entry in trivial.items() if entry.verdict == "survived"} == accepted


def test_results_that_jump_reject_right_answers():
    rejected = [entry for entry in entries(honest_entries, "jumping").values() if entry.verdict == "rejected"]
    assert rejected
    assert all(entry.check == "exact_integers" and "expected" in entry.reason for entry in rejected)


def test_when_time_is_up_one_case_is_tried_and_no_mutant():
    for trials in (honest_entries, trivial_entries):
        assert {entry.cases for entry in entries(trials, "rmsnorm", at_once).values()} == {1}
    assert {(entry.verdict, entry.cases) for entry in entries(mutant_entries, "rmsnorm", at_once).values()} == {
        ("untried", 0)
    }


def test_an_answer_that_passed_within_bounds_alone_when_time_was_up_is_untried():
    assert entries(trivial_entries, "lost", at_once)["zeros"].verdict == "untried"
    assert entries(trivial_entries, "lost")["zeros"].verdict == "killed"
    assert entries(trivial_entries, "zeros", at_once)["zeros"].verdict == "survived"


def test_what_makes_no_sense_is_not_listed():
    names = entries(mutant_entries, "rmsnorm")
    assert "mul 2: without its left operand" not in names
    assert "mul 2: without its right operand" in names


def test_what_makes_no_sense_for_some_values_is_not_listed():
    """Without its clamp the index is -1 where no element is above the mean: in rows of equal values, and beside NaN."""
    names = entries(mutant_entries, "ranked")
    assert "clamp: left out" not in names
    assert "gather: index off by one" in names
