"""From the table to a verdict, with a reason that names what is wrong."""

import pytest

from tests.workers.mutation_testing.references import operator
from workers.mutation_testing.verdict import NAMED, summed_up
from workers.protocol import MutationEntry, MutationReport


def entry(kind: str, verdict: str, name: str = "it", **more) -> MutationEntry:
    return MutationEntry.model_validate({"name": name, "kind": kind, "verdict": verdict, "cases": 4, **more})


RIGHT, ZEROS = entry("honest", "passed"), entry("trivial", "killed", "zeros")


def verdict(*entries: MutationEntry) -> MutationReport:
    return summed_up(operator("added"), ["M=1"], [RIGHT, ZEROS, *entries], 0.5)


def mutants(killed: int, survived: int = 0, **others: int) -> list[MutationEntry]:
    counts = {"killed": killed, "survived": survived, **others}
    return [entry("mutant", kind, f"{kind} {i}") for kind, count in counts.items() for i in range(count)]


def test_all_killed_passes():
    gate = verdict(*mutants(30))
    assert (gate.verdict, gate.reason, gate.kill_rate, gate.shapes) == ("passed", "", 1.0, ("M=1",))
    assert len(gate.entries) == 32


def test_what_is_no_fault_does_not_count():
    gate = verdict(*mutants(1, equivalent=5, within_rounding=5))
    assert (gate.verdict, gate.kill_rate) == ("passed", 1.0)


@pytest.mark.parametrize(
    ("killed", "survived", "passed"), [(10, 1, True), (50, 2, True), (50, 3, False), (3, 1, False), (300, 8, False)]
)
def test_too_many_survivors_for_chance_are_a_verdict(killed, survived, passed):
    gate = verdict(*mutants(killed, survived=survived))
    assert gate.kill_rate == pytest.approx((killed + 1) / (killed + 1 + survived))
    assert (gate.verdict == "passed") == passed
    assert "'survived 0'" in gate.reason and ("99%" in gate.reason) != passed


def test_an_input_that_need_not_be_read_is_too_many():
    gate = verdict(*mutants(1000), entry("mutant", "survived", "input 'mask': ignored, zeros instead"))
    assert gate.verdict == "failed"
    assert "do not read an input: 'input 'mask': ignored" in gate.reason and "`low` and `high`" in gate.reason


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("input 'x': last tile of axis 1 left out", "`low` and `high`"),
        ("mm: added up in float16", "`outputs.dtype`"),
        ("add: epsilon left out", "that constant matters"),
        ("sum: last tile left out", "`ranges`"),
        ("clamp: left out", "out of the reference"),
    ],
)
def test_a_reason_names_what_to_change_in_the_spec(name, remedy):
    gate = verdict(entry("mutant", "survived", name), entry("mutant", "survived", f"{name}, too"))
    assert gate.verdict == "failed"
    assert remedy in gate.reason and "--admit" not in gate.reason, "marks of admitted searches quote it"


def test_survivors_are_named():
    gate = verdict(*mutants(10, survived=NAMED + 2))
    assert gate.verdict == "failed"
    assert "'survived 0'" in gate.reason and "and 2 more" in gate.reason


def test_one_trivial_answer_is_too_many():
    gate = verdict(*mutants(1000), entry("trivial", "survived", "ones"))
    assert gate.verdict == "failed"
    assert "'ones'" in gate.reason and "float32" in gate.reason


def test_a_rejected_right_answer_is_told_first():
    rejected = entry("honest", "rejected", "sums in parts", check="error_ratio", failures=2, reason="off by 3")
    gate = verdict(rejected, entry("trivial", "survived", "ones"))
    assert gate.verdict == "failed"
    assert "'sums in parts' fails the check error_ratio in 2 of 4 cases (off by 3)" in gate.reason


def test_what_there_was_no_time_for_is_said():
    gate = verdict(*mutants(5, untried=3))
    assert gate.verdict == "passed"
    assert gate.reason == "there was no time for 3 of 10 answers"


def test_no_mutant_tried_is_no_verdict():
    gate = verdict(*mutants(0, untried=3))
    assert gate.verdict == "untried"
    assert "no time for 3 of 5 answers" in gate.reason and "ranges" in gate.reason


def test_nothing_tried_is_no_verdict():
    gate = summed_up(operator("added"), [], [], 9.0)
    assert (gate.verdict, gate.kill_rate) == ("untried", None)
    assert gate.reason


def test_a_gate_survives_json():
    gate = verdict(*mutants(3, survived=1))
    assert MutationReport.model_validate_json(gate.model_dump_json()) == gate
