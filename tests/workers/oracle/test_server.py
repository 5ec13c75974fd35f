"""Whatever goes wrong is said in one line, and too little memory is met by forgetting first."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from tests.workers.checks.cases import HONEST, operator
from tests.workers.oracle.paper import ARENA_BYTES, PaperCard
from tests.workers.oracle.stage import SEED, Stage
from workers.commands import (
    TIMED,
    AttachArena,
    ChildBroken,
    ChildReady,
    CommandRefused,
    DriverFault,
    ExaminedRuns,
    ExamineIdle,
    InputContent,
    Reply,
    Reset,
    SetOperator,
)
from workers.driver import DriverError
from workers.oracle.answer_cache import ENTRY_SHARE, AnswerCache, AnswerKey, CachedAnswer
from workers.oracle.answers import ExactAnswer
from workers.oracle.examiner import IDLE_BYTES, Examiner
from workers.oracle.server import Oracle, demand_precision, open_card, respond
from workers.protocol import InputRef, Node, NodeRef, Outcome

NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 34.00 GiB.")
ATTEND = AttachArena(handle="ab", arena_bytes=64)


class Cramped(PaperCard):
    """Has too little memory the first few times."""

    def __init__(self, times: int, error: Exception = NO_MEMORY) -> None:
        super().__init__()
        self.times = times
        self.error = error

    def attach(self, handle: str, arena_bytes: int, *, alone: bool = False) -> None:
        if self.times:
            self.times -= 1
            raise self.error
        super().attach(handle, arena_bytes, alone=alone)


def test_an_order_is_carried_out():
    assert isinstance(respond(Examiner(PaperCard(), AnswerCache(0)), ATTEND), ExaminedRuns)


@pytest.mark.parametrize(
    "error",
    [
        NO_MEMORY,
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        DriverError("CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_too_little_memory_once_is_met_by_forgetting(error: Exception):
    card = Cramped(1, error)
    assert isinstance(respond(Examiner(card, AnswerCache(64)), ATTEND), ExaminedRuns)
    assert card.freed == 1


@pytest.mark.parametrize(("idle_bytes", "freed"), [(IDLE_BYTES, 0), (IDLE_BYTES + 1, 1)])
def test_much_idle_memory_is_given_back_after_an_order(idle_bytes, freed):
    card = PaperCard()
    card.idle_bytes = idle_bytes
    assert isinstance(respond(Examiner(card, AnswerCache(64)), ATTEND), ExaminedRuns)
    assert card.freed == freed


def test_idle_memory_is_kept_from_round_to_round_of_a_timing_and_no_longer():
    stage = Stage(operator("softmax"))
    stage._ask = partial(respond, stage.examiner)
    stage.card.idle_bytes, stage.card.freed = IDLE_BYTES + 1, 0
    kernel = HONEST["softmax"]
    for _ in range(2):
        assert stage.examine_round(kernel, kernel).outcome is None
    assert stage.card.freed == 0
    stage.ask(ExamineIdle(ranges=()))
    assert stage.card.freed == 1
    assert stage.examine_round(torch.zeros_like, kernel).outcome is not None
    assert stage.card.freed == 2, "nothing follows a refusal"
    stage.adopt()
    stage.examine(kernel, InputContent(draw="normal", seed=SEED))
    assert stage.card.freed == 4, "checked runs draw their inputs on the card, which takes memory"


@pytest.mark.parametrize(("times", "left"), [(0, 4), (1, 3), (2, 0)])
def test_some_answers_are_forgotten_first_and_then_all(times: int, left: int):
    memory = AnswerCache(40 * ENTRY_SHARE)
    for stream in range(4):
        values = torch.zeros(40, dtype=torch.uint8)
        memory.keep(AnswerKey("digest", "M=1", TIMED, "5eed", stream), CachedAnswer((ExactAnswer(values),), False))
    assert isinstance(respond(Examiner(Cramped(times), memory), ATTEND), ExaminedRuns)
    assert memory._held_bytes == left * 40


def test_too_little_memory_without_any_answer_is_said():
    card = Cramped(3)
    card.peaks = [90 * 10**9, 52_300_000_000]
    reply = respond(Examiner(card, AnswerCache(0)), ATTEND)
    assert isinstance(reply, CommandRefused), "the first peak had answers in it that were dropped"
    assert reply.reason.startswith("the card's memory does not suffice to carry out 'attend'")
    assert reply.reason.endswith("more than 52.3 GB")


@pytest.mark.parametrize("alone", [False, True])
def test_an_oracle_is_told_if_the_card_is_its_own(alone: bool):
    card = PaperCard()
    respond(Examiner(card, AnswerCache(0)), ATTEND.model_copy(update={"alone": alone}))
    assert card.alone is alone


@pytest.mark.parametrize("order", [Reset(), AttachArena(handle="none", arena_bytes=1)])
def test_what_cannot_be_carried_out_is_said(order):
    card = PaperCard()
    card.attach = refuse
    reply = respond(Examiner(card, AnswerCache(0)), order)
    assert isinstance(reply, ChildBroken)
    assert reply.error.startswith(("BadMessage: 'scrub'", "ValueError: no such arena"))


def test_a_reference_that_raises_is_a_refusal_and_the_oracle_goes_on():
    stage = Stage(operator("softmax"))
    honest, graph = HONEST["softmax"], stage.graph
    wrong = Node(op="aten.view.default", args=(InputRef(input=0), (3,)))
    stage.graph = graph.model_copy(update={"nodes": (wrong,), "outputs": (NodeRef(node=0),)})
    stage._ask = partial(respond, stage.examiner)
    content = InputContent(draw="normal", seed=SEED)
    stage.adopt()
    seen = stage.examine(honest, content)
    assert seen.outcome is Outcome.TRACE_CRASHED
    assert seen.reason.startswith("the reference fails on drawn inputs: aten.view.default raised RuntimeError: shape")
    stage.graph = graph
    stage.adopt()
    assert stage.examine(honest, content).outcome is None


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), DriverFault),
        (torch.AcceleratorError("CUDA error: an illegal memory access was encountered"), ChildBroken),
    ],
)
def test_a_card_that_stopped_is_left_alone(error: Exception, reply: type[Reply], monkeypatch):
    examiner, freed = Examiner(Cramped(1, error), AnswerCache(64)), []
    monkeypatch.setattr(examiner, "tidy", lambda: freed.append(True))
    found = respond(examiner, ATTEND)
    assert isinstance(found, reply) and len(freed) == (reply is ChildBroken)
    assert ("the reference fails on drawn inputs: an operation used an index" in found.error) is (reply is DriverFault)


def refuse(handle: str, arena_bytes: int, *, alone: bool) -> None:
    raise ValueError("no such arena")


def test_a_card_that_is_not_there_is_said_at_once():
    reply = Oracle(partial(open_card, 99, {})).receive()
    assert isinstance(reply, ChildBroken)
    assert "cannot open the card" in reply.error


class OpenedCard(PaperCard):
    """A card as the checker opens it."""

    memory_bytes = 2**26
    opened = SimpleNamespace(name="Paper H200", versions={"driver": "1"})

    def without_arena(self) -> PaperCard:
        return PaperCard()


def sit_down(oracle: Oracle) -> Stage:
    """A bench that judges softmax, with an arena of its own."""
    session = oracle.receive()
    assert isinstance(session.greeting, ChildReady)
    session.answer(AttachArena(handle="ab", arena_bytes=ARENA_BYTES))
    return Stage(operator("softmax"), session.examiner._card, session.answer)


def test_benches_of_one_card_work_out_once_what_is_right():
    opened, held = [], []

    def begin() -> OpenedCard:
        opened.append(OpenedCard())
        return opened[-1]

    oracle = Oracle(begin)
    for _ in range(2):
        stage = sit_down(oracle)
        # More calls than contents: every bench meets all of them.
        seen = stage.ask(stage.round(HONEST["softmax"], HONEST["softmax"], calls=4))
        assert seen.outcome is None and {check.verdict for check in seen.checks} <= {"passed", "skipped"}
        held.append(oracle._opened[1]._held_bytes)
    assert held[0] == held[1] > 0
    assert len(opened) == 1


def test_what_one_bench_found_is_no_other_ones():
    oracle = Oracle(OpenedCard)
    one, other = sit_down(oracle), sit_down(oracle)
    assert one.adopt().secret == other.adopt().secret != ""
    assert one.examine_round(lambda x: torch.ones_like(x), HONEST["softmax"]).outcome is Outcome.WRONG_RESULT
    seen = other.examine_round(HONEST["softmax"], HONEST["softmax"])
    assert seen.outcome is None and "failed" not in {check.verdict for check in seen.checks}


def test_who_leaves_takes_nothing_along():
    oracle = Oracle(OpenedCard)
    one, other = oracle.receive(), oracle.receive()
    one.leave()
    assert other.answer(AttachArena(handle="ab", arena_bytes=64)).outcome is None


def test_float32_is_float32():
    demand_precision()
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    assert torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction


def test_a_checker_without_an_operator_says_so():
    examiner = Examiner(PaperCard(), AnswerCache(0))
    with pytest.raises(Exception, match="no operator is set"):
        examiner._subject  # noqa: B018
    assert isinstance(respond(examiner, SetOperator(operator=operator("softmax"), graphs=())), ExaminedRuns)
