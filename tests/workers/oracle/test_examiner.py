"""Whatever is wrong with a run is found, on drawn and on timed content; what is right passes."""

import pytest
import torch

from tests.workers.checks.cases import FAULTS, HONEST, LONGER, operator
from tests.workers.oracle.stage import SEED, Stage
from workers.checks import CHECKS
from workers.commands import (
    TIMED,
    AttachArena,
    DropCache,
    ExaminedRuns,
    ExamineIdle,
    ExamineMore,
    InputContent,
    Reset,
    SetOperator,
)
from workers.errors import BadMessage
from workers.inputs import DRAWS
from workers.memory_layout import outside
from workers.oracle.server import respond
from workers.protocol import Outcome

NORMAL = InputContent(draw="normal", seed=SEED)
RETYPED = {"float32 returned", "shape transposed"}
"""Faults that change the output's view, which a kernel alone cannot."""
TIMED_FAULTS = {
    name: fault
    for name, fault in FAULTS.items()
    if name not in {*RETYPED, "missing epsilon", "no maximum", "nan swallowed", "last index of a tie"}
}
"""Faults that show on normal values with rare large ones."""


def examine(stage: Stage, kernel, content: InputContent = NORMAL) -> ExaminedRuns:
    return stage.examine(kernel, content)


def examine_round(stage: Stage, kernel, pacer=None) -> ExaminedRuns:
    return stage.examine_round(kernel, pacer or HONEST[stage.operator.name])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_pass_on_all_content(name, dtype):
    stage = Stage(operator(name, dtype))
    for draw in (*DRAWS, TIMED):
        seen = examine(stage, HONEST[name], InputContent(draw=draw, seed=SEED, stream=3))
        assert seen.outcome is None, (draw, seen.reason)
    assert [(each.name, each.verdict) for each in seen.checks] == [(check, "passed") for check in CHECKS]
    seen = examine_round(stage, HONEST[name])
    assert seen.outcome is None, seen.reason


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in RETYPED])
def test_faults_are_found_on_some_draw(fault):
    name, kernel, outcomes = FAULTS[fault]
    stage = Stage(operator(*name.split(":")), **LONGER.get(fault, {}))
    found = {}
    for draw in DRAWS:
        stage.adopt()
        seen = examine(stage, kernel, InputContent(draw=draw, seed=SEED))
        found |= {seen.outcome: seen.reason} if seen.outcome else {}
    assert found and set(found) <= outcomes
    assert all(found.values())


@pytest.mark.parametrize("fault", TIMED_FAULTS)
def test_faults_are_found_among_timed_outputs(fault):
    name, kernel, outcomes = TIMED_FAULTS[fault]
    stage = Stage(operator(*name.split(":")), **LONGER.get(fault, {}))
    seen = examine_round(stage, kernel)
    assert seen.outcome in outcomes, seen
    assert "timed inputs" in seen.reason or seen.outcome is Outcome.INPUT_MUTATED
    assert "failed" in {check.verdict for check in seen.checks}


def test_it_tells_how_near_errors_and_bias_came_where_a_quick_look_was_enough():
    checks = {check.name: check for check in examine(Stage(operator("swiglu")), HONEST["swiglu"]).checks}
    assert 0 < checks["error_ratio"].worst < 1 and 0 < checks["bias"].worst < 1
    assert checks["error_ratio"].worst != checks["bias"].worst and checks["special_values"].worst == 0


def test_one_wrong_output_in_a_round_is_enough():
    stage = Stage(operator("softmax"))
    calls = []

    def lazy(x):
        calls.append(x)
        return HONEST["softmax"](x) if len(calls) != 3 else torch.zeros_like(x)

    assert examine_round(stage, lazy).outcome is Outcome.WRONG_RESULT


@pytest.mark.parametrize("content", [NORMAL, InputContent(draw=TIMED, seed=SEED)], ids=["drawn", "timed"])
def test_an_output_that_is_never_written_is_called_that(content):
    stage = Stage(operator("rmsnorm"))
    seen = examine(stage, lambda x, weight: None, content)
    assert seen.outcome is Outcome.WRONG_RESULT
    assert "never written" in seen.reason


def test_bounds_are_not_widened_for_an_output_that_is_never_written():
    stage = Stage(operator("rmsnorm"))
    assert "never written" in examine(stage, lambda x, weight: None).reason and stage.card.measured == 1
    stage.adopt()
    assert examine(stage, lambda x, weight: x).outcome is Outcome.WRONG_RESULT and stage.card.measured == 3


def test_an_integer_that_is_never_written_is_wrong():
    stage = Stage(operator("argmax"))
    assert examine(stage, lambda x: None).outcome is Outcome.WRONG_RESULT
    stage.adopt()
    assert examine_round(stage, lambda x: None).outcome is Outcome.WRONG_RESULT


@pytest.mark.parametrize("timed", [False, True], ids=["drawn", "timed"])
def test_a_write_beside_a_buffer_is_out_of_bounds(timed):
    stage = Stage(operator("softmax"))

    def overflow(x):
        end = x.storage_offset() * 2 + x.nbytes
        stage.card.arena[end : end + 4] ^= 0xFF
        return HONEST["softmax"](x)

    seen = examine_round(stage, overflow) if timed else examine(stage, overflow)
    assert seen.outcome is Outcome.OUT_OF_BOUNDS
    assert "4 bytes" in seen.reason or timed
    assert "after the end of input 'x'" in seen.reason


def test_changed_inputs_are_found_in_every_position():
    stage = Stage(operator("rmsnorm"))

    def change(x, weight):
        result = HONEST["rmsnorm"](x, weight)
        weight[-1] = -weight[-1]
        return result

    seen = examine_round(stage, change)
    assert seen.outcome is Outcome.INPUT_MUTATED
    assert "'weight'" in seen.reason
    assert examine(stage, change).outcome is Outcome.INPUT_MUTATED


def test_mutable_inputs_whose_memory_is_no_output_stay():
    base = operator("rmsnorm")
    first = base.inputs[0].model_copy(update={"mutable": True})
    stage = Stage(base.model_copy(update={"inputs": (first, base.inputs[1])}))

    def change(x, weight):
        result = HONEST["rmsnorm"](x, weight)
        x += 1
        return result

    seen = examine_round(stage, change)
    assert (seen.outcome, "'x'" in seen.reason) == (Outcome.INPUT_MUTATED, True)
    stage.adopt()
    assert examine_round(stage, HONEST["rmsnorm"]).outcome is None


def in_looks(stage: Stage, kernel, pacer) -> list[ExaminedRuns]:
    """What each look at a round says, if a look has time for one unknown content and for all known ones."""
    stage.examiner._look_s = 0.0
    found = [stage.examiner.answer(stage.round(kernel, pacer, contents=8))]
    while found[-1].next is not None and not found[-1].pacer:
        found.append(stage.examiner.answer(ExamineMore(start=found[-1].next)))
    return found


@pytest.mark.parametrize("wrong", range(4))
def test_one_wrong_output_is_found_in_whichever_look_it_is(wrong: int):
    calls = []

    def lazy(x):
        calls.append(x)
        return HONEST["softmax"](x) if len(calls) != wrong + 1 else torch.zeros_like(x)

    honest = HONEST["softmax"]
    found = in_looks(Stage(operator("softmax")), lazy, honest)
    assert found[-1].outcome is Outcome.WRONG_RESULT
    calls.clear()
    found = in_looks(Stage(operator("softmax")), honest, lazy)
    assert found[-1].pacer and {each.outcome for each in found} == {None}


def test_looks_see_every_run_once_and_one_suffices_if_all_answers_are_known():
    whole, divided = Stage(operator("softmax")), Stage(operator("softmax"))
    honest = HONEST["softmax"]
    assert whole.ask(whole.round(honest, honest, contents=8)).outcome is None
    found = in_looks(divided, honest, honest)
    assert len(found) > 1 and {each.outcome for each in found} == {None}
    assert divided.card.measured == whole.card.measured
    assert {check.verdict for check in found[-1].checks} == {"passed"}
    assert in_looks(divided, honest, honest)[0].next is None, "the same contents again"


def test_a_write_beside_a_buffer_is_found_in_the_first_look():
    def writes(x):
        x.as_strided((1,), (1,), x.storage_offset() + x.numel()).fill_(1.0)
        return HONEST["softmax"](x)

    assert in_looks(Stage(operator("softmax")), writes, HONEST["softmax"])[0].outcome is Outcome.OUT_OF_BOUNDS


def test_runs_that_are_compared_are_so_after_the_last_look():
    stage = Stage(operator("softmax"))
    stage.examiner._look_s = 0.0
    first, second, third = stage.slots(3)
    other = InputContent(draw="heavy", seed=SEED)
    contents = {first: NORMAL, second: NORMAL, third: other}
    runs = [stage.play(HONEST["softmax"], slot, content) for slot, content in contents.items()]
    offset = first.buffers[runs[0].plan.outputs[0].buffer]
    stage.card.arena[offset : offset + 2].view(torch.bfloat16)[0] *= 1.02
    compared = stage.order(NORMAL, first, second, third, compared=True)
    order = compared.model_copy(
        update={"cases": (*compared.cases[:2], compared.cases[2].model_copy(update={"content": other}))}
    )
    seen = stage.examiner.answer(order)
    assert (seen.outcome, seen.next) == (None, 1)
    assert stage.examiner.answer(ExamineMore(start=1)).outcome is Outcome.NONDETERMINISTIC


@pytest.mark.parametrize("lacking", range(3))
def test_a_look_that_lacks_memory_is_repeated_and_leaves_no_run_out(lacking: int, monkeypatch):
    stage, calls = Stage(operator("softmax")), []
    measure = stage.card.margins

    def margins(outputs, answers):
        calls.append(len(outputs))
        if len(calls) == lacking + 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return measure(outputs, answers)

    monkeypatch.setattr(stage.card, "margins", margins)
    honest, wrong = HONEST["softmax"], iter([False] * 3 + [True])
    order = stage.round(lambda x: torch.zeros_like(x) if next(wrong) else honest(x), honest, contents=8)
    stage.examiner._look_s = 0.0
    seen = respond(stage.examiner, order)
    while seen.next is not None:
        seen = respond(stage.examiner, ExamineMore(start=seen.next))
    assert seen.outcome is Outcome.WRONG_RESULT and len(calls) > lacking


def test_nothing_goes_on_that_was_not_begun():
    stage = Stage(operator("softmax"))
    with pytest.raises(BadMessage, match="no examination"):
        stage.examiner.answer(ExamineMore(start=1))
    stage.examine(HONEST["softmax"], NORMAL)
    stage.adopt()
    with pytest.raises(BadMessage, match="no examination"):
        stage.examiner.answer(ExamineMore(start=1))


@pytest.mark.parametrize("wrong", [1, 16])
def test_bounds_are_widened_for_as_few_runs_as_show_that_a_kernel_is_wrong(wrong: int):
    stage, calls, sizes = Stage(operator("softmax")), [], {"calls": 4, "pairs": 4, "contents": 4}

    def lazy(x):
        calls.append(x)
        return torch.zeros_like(x) if len(calls) <= wrong else HONEST["softmax"](x)

    assert stage.ask(stage.round(HONEST["softmax"], HONEST["softmax"], **sizes)).outcome is None
    runs = stage.card.measured
    assert stage.ask(stage.round(lazy, HONEST["softmax"], **sizes)).outcome is Outcome.WRONG_RESULT
    assert stage.card.measured == 2 * runs + 1


def test_a_pacer_that_is_wrong_is_no_fault_of_the_candidate():
    stage = Stage(operator("softmax"))
    seen = examine_round(stage, HONEST["softmax"], lambda x: torch.zeros_like(x))
    assert seen.outcome is None and "output 'y' is 0" in seen.pacer
    assert "failed" not in {check.verdict for check in seen.checks}
    assert examine_round(stage, lambda x: torch.ones_like(x), lambda x: torch.zeros_like(x)).outcome == "wrong_result"


def test_answers_are_worked_out_once_and_outputs_measured_every_time():
    stage = Stage(operator("softmax"))
    first = stage.round(HONEST["softmax"], HONEST["softmax"])
    assert stage.examiner.answer(first).outcome is None
    held = stage.examiner._memory._held_bytes
    measured = stage.card.measured
    assert stage.examiner.answer(first).outcome is None
    assert stage.examiner._memory._held_bytes == held > 0
    assert stage.card.measured == 2 * measured
    assert stage.examiner.answer(DropCache()).outcome is None
    assert stage.examiner._memory._held_bytes == 0
    assert stage.card.freed == 1


def test_answers_to_content_that_is_used_once_take_no_memory():
    stage, memory = Stage(operator("softmax")), []
    for fresh in (True, False):
        told = stage.examiner.answer(SetOperator(operator=stage.operator, graphs=(stage.graph,), fresh=fresh))
        assert bool(told.secret) is not fresh
        assert stage.ask(stage.round(HONEST["softmax"], HONEST["softmax"])).outcome is None
        assert stage.ask(stage.round(lambda x: torch.zeros_like(x), HONEST["softmax"])).outcome is not None
        memory.append(stage.examiner._memory._held_bytes)
    assert memory[0] == 0 < memory[1]


def test_rounds_are_judged_without_any_memory():
    stage = Stage(operator("softmax"), memory_bytes=0)
    assert examine_round(stage, HONEST["softmax"]).outcome is None
    assert examine_round(stage, lambda x: torch.ones_like(x)).outcome is Outcome.WRONG_RESULT


def test_memory_without_a_place_must_be_poisoned():
    stage = Stage(operator("softmax"))
    (slot,) = stage.slots(1, start=4096)
    stage.card.arena.fill_(0xFF)
    stage.play(HONEST["softmax"], slot, NORMAL)
    look = ExamineIdle(ranges=outside((0, stage.card.arena.numel()), (slot.start, slot.end)))
    assert stage.examiner.answer(look).outcome is None
    for place in (0, slot.start - 1, slot.end, stage.card.arena.numel() - 1):
        stage.card.arena[place] ^= 1
        seen = stage.examiner.answer(look)
        assert seen.outcome is Outcome.OUT_OF_BOUNDS and "far from its buffers" in seen.reason
        stage.card.arena[place] ^= 1


def test_equal_runs_compare_equal():
    stage = Stage(operator("softmax"))
    first, second = stage.slots(2)
    for slot in (first, second):
        stage.play(HONEST["softmax"], slot, NORMAL)
    assert stage.examiner.answer(stage.order(NORMAL, first, second, compared=True)).outcome is None


def test_runs_that_differ_are_not_deterministic():
    stage = Stage(operator("softmax"))
    first, second = stage.slots(2)
    for slot in (first, second):
        run = stage.play(HONEST["softmax"], slot, NORMAL)
    offset = first.buffers[run.plan.outputs[0].buffer]
    stage.card.arena[offset : offset + 2].view(torch.bfloat16)[0] *= 1.02
    seen = stage.examiner.answer(stage.order(NORMAL, first, second, compared=True))
    assert seen.outcome is Outcome.NONDETERMINISTIC
    assert "at [0, 0]" in seen.reason


def test_a_failure_stays_until_another_operator_is_adopted():
    stage = Stage(operator("softmax"))
    assert examine(stage, lambda x: torch.zeros_like(x)).outcome is Outcome.WRONG_RESULT
    assert "failed" in {
        check.verdict for check in stage.examiner.answer(AttachArena(handle="ab", arena_bytes=64)).checks
    }
    fresh = stage.adopt()
    assert fresh.outcome is None
    assert {check.verdict for check in fresh.checks} == {"skipped"}


def test_another_arena_is_attended():
    stage = Stage(operator("softmax"))
    assert stage.examiner.answer(AttachArena(handle="cd", arena_bytes=64)).outcome is None
    assert stage.card.arena.numel() == 64


def test_orders_that_make_no_sense_are_refused():
    stage = Stage(operator("softmax"))
    with pytest.raises(BadMessage, match="not a command for an oracle"):
        stage.examiner.answer(Reset())
    stage.examiner.answer(SetOperator(operator=stage.operator, graphs=()))
    with pytest.raises(BadMessage, match="no reference for M=48,N=96"):
        examine(stage, HONEST["softmax"])
