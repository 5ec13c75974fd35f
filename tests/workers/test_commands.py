"""Orders and answers survive the line between two processes, and nothing else passes."""

import pytest
from pydantic import ValidationError

from workers.commands import (
    ORDER,
    REPLY,
    TIMED,
    AttachArena,
    ClaimArena,
    CommandDone,
    DriverFault,
    DropCache,
    ExaminedRuns,
    ExamineMore,
    ExecuteRuns,
    InputContent,
    PairSide,
    PoisonRanges,
    PrepareRound,
    Reset,
    RunCase,
    RunSlot,
    TimedRound,
    TimedSample,
    TimeRound,
    TimingRound,
)
from workers.protocol import CheckResult, Outcome

SLOT = RunSlot(start=0, end=1024, buffers=(256, 512), scratch=((-1, 768),), zones=((0, 256), (300, 212)))
CONTENT = InputContent(draw=TIMED, seed="00ff", stream=7)
ROUND = TimingRound(
    plans={PairSide.CANDIDATE: 0, PairSide.PACER: 2},
    slots={PairSide.CANDIDATE: (SLOT,), PairSide.PACER: (SLOT,)},
    samples=(TimedSample(side=PairSide.PACER, slots=(0,), streams=(2**32,)),),
    seed="00ff",
)
ORDERS = (
    ExecuteRuns(side=PairSide.CANDIDATE, cases=(RunCase(plan=1, slot=SLOT, content=CONTENT),), zones="00ff"),
    PrepareRound(round=ROUND),
    TimeRound(),
    Reset(),
    PoisonRanges(ranges=((0, 256), (512, 1024))),
    AttachArena(handle="ab", arena_bytes=1024),
    ClaimArena(arena_bytes=1024),
    DropCache(),
    ExamineMore(start=3),
)
REPLIES = (
    CommandDone(),
    TimedRound(
        samples_us=(1.5, 2.5),
        wall_us=9.0,
        checksums=(-(2**63), 2**63 - 1),
        starts_us=(0.0, 5.0),
        holds_us=(0.0, 5.5),
        clocks_mhz=(1980.0, 0.0),
    ),
    ExaminedRuns(
        outcome=Outcome.WRONG_RESULT, reason="no", checks=(CheckResult(name="bias", verdict="failed", worst=2.0),)
    ),
    DriverFault(error="CUDA_ERROR_ILLEGAL_ADDRESS"),
)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.order)
def test_an_order_arrives_as_it_was_given(order):
    line = ORDER.dump_json(order)
    assert b"\n" not in line and ORDER.validate_json(line) == order


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.answer)
def test_an_answer_arrives_as_it_was_said(reply):
    line = REPLY.dump_json(reply)
    assert b"\n" not in line and REPLY.validate_json(line) == reply


@pytest.mark.parametrize("line", ['{"order": "obey"}', '{"order": "scrub", "all": true}', "[]", '{"answer": "done"}'])
def test_what_is_no_order_is_refused(line):
    with pytest.raises(ValidationError):
        ORDER.validate_json(line)


def test_a_round_knows_the_runs_of_a_side_in_their_order():
    other = SLOT.model_copy(update={"start": SLOT.end, "end": 2 * SLOT.end})
    samples = (
        TimedSample(side=PairSide.PACER, slots=(1, 0), streams=(7, 5)),
        TimedSample(side=PairSide.CANDIDATE, slots=(0,), streams=(3,)),
    )
    order = ROUND.model_copy(update={"slots": dict.fromkeys(PairSide, (SLOT, other)), "samples": samples})
    found = [(case.plan, case.slot, case.content.stream) for case in order.cases(PairSide.PACER)]
    assert found == [(2, other, 7), (2, SLOT, 5)]
    assert [(case.plan, case.content) for case in order.cases(PairSide.CANDIDATE)] == [
        (0, InputContent(draw="timed", seed="00ff", stream=3))
    ]
