import time
from base64 import b64encode
from collections.abc import Iterator

import pytest
import torch

from tests.workers.paper_driver import Paper, Result
from tests.workers.runner.plans import (
    ARENA_BYTES,
    OPERATOR,
    arena,
    bundle_of,
    kernel,
    machine_code,
    slots_of,
    supported,
)
from workers import driver
from workers.child_process import ChildChannel, ForkedChild
from workers.commands import (
    AttachArena,
    ChildBroken,
    ChildReady,
    ClaimArena,
    CommandDone,
    CommandRefused,
    ExecuteRuns,
    InputContent,
    LoadBundle,
    PairSide,
    PoisonRanges,
    PrepareRound,
    Reply,
    Reset,
    RunCase,
    TimedRound,
    TimedSample,
    TimeRound,
    TimingRound,
)
from workers.driver import DriverError
from workers.errors import BadMessage
from workers.runner import open_card, serve
from workers.runner.arena import Arena
from workers.runner.session import LOAD_FLUSHES, OpenedCard, RunnerSession, fault_of

CONTENT = InputContent(draw="normal", seed="ab" * 16)
BUNDLE = bundle_of(kernel())
WAITED = ["synchronise"] * 2
"""For the runs, and for what went on beside them."""


@pytest.fixture
def opened() -> Iterator[tuple[Paper, Arena, RunnerSession]]:
    with supported() as (paper, support):
        memory = arena()
        yield paper, memory, OpenedCard(driver.open_card(0), support, lambda _: memory).claim(memory.bytes)


def load(side: PairSide = PairSide.CANDIDATE, bundle=BUNDLE, local: int = 0) -> LoadBundle:
    code = {digest: b64encode(each).decode() for digest, each in machine_code(bundle, local=local).items()}
    return LoadBundle(side=side, operator=OPERATOR, bundle=bundle, machine_code=code)


def execute(slot=None, side: PairSide = PairSide.CANDIDATE) -> ExecuteRuns:
    case = RunCase(plan=0, slot=slot or slots_of(BUNDLE)[0], content=CONTENT)
    return ExecuteRuns(side=side, cases=(case,), zones=CONTENT.seed)


def time_round(session: RunnerSession, rest_s: float = 0.0) -> Reply:
    places = slots_of(BUNDLE, 2, start=2**20)
    samples = (TimedSample(side=PairSide.CANDIDATE, slots=(0, 1), streams=(0, 1)),)
    order = TimingRound(
        plans={PairSide.CANDIDATE: 0}, slots={PairSide.CANDIDATE: places}, samples=samples, seed="cd" * 16
    )
    assert session.obey(PrepareRound(round=order)) == CommandDone()
    return session.obey(TimeRound(rest_s=rest_s))


def test_the_greeting_says_what_card_and_where_its_arena_is(opened) -> None:
    _, memory, session = opened
    greeting = session.opened
    assert (greeting.card, greeting.arena_bytes, greeting.handle) == ("Paper H200", memory.bytes, memory.handle.hex())
    assert greeting.address == "0000:1B:00.0"
    assert greeting.versions.keys() == {"driver", "cuda", "torch", "card"}


def test_the_arena_is_overwritten_at_first(opened) -> None:
    _, memory, _ = opened
    assert set(memory.tensor(0, memory.bytes).unique().tolist()) == {0xFF}


def test_a_plan_runs_on_filled_memory(opened) -> None:
    paper, _, session = opened
    assert session.obey(load()) == CommandDone()
    paper.log.clear()
    assert session.obey(execute()) == CommandDone()
    assert paper.log == ["poison", "fill_zones", "work", *WAITED]


def test_several_cases_are_filled_first_and_awaited_once(opened) -> None:
    paper, _, session = opened
    session.obey(load())
    paper.log.clear()
    cases = tuple(RunCase(plan=0, slot=slot, content=CONTENT) for slot in slots_of(BUNDLE, 3))
    assert session.obey(ExecuteRuns(side=PairSide.CANDIDATE, cases=cases, zones=CONTENT.seed)) == CommandDone()
    assert paper.log == ["poison", "fill_zones", "work", "work", "work", *WAITED]


def test_a_run_has_company_when_all_before_it_is_done(opened) -> None:
    paper, _, session = opened
    session.obey(load())
    paper.log.clear()
    first, second = (RunCase(plan=0, slot=slot, content=CONTENT) for slot in slots_of(BUNDLE, 2))
    cases = (first, second.model_copy(update={"concurrent_load": True}))
    assert session.obey(ExecuteRuns(side=PairSide.CANDIDATE, cases=cases, zones=CONTENT.seed)) == CommandDone()
    concurrent_load = ["synchronise", *["flush"] * LOAD_FLUSHES]
    assert paper.log == ["poison", "fill_zones", "work", *concurrent_load, "work", *WAITED]


def test_a_round_is_timed(opened) -> None:
    _, _, session = opened
    session.obey(load())
    reply = time_round(session)
    assert isinstance(reply, TimedRound)
    assert reply.samples_us == pytest.approx((1.0,))


def test_the_card_rests_before_a_round(opened) -> None:
    _, _, session = opened
    session.obey(load())
    begun = time.monotonic()
    assert isinstance(time_round(session, rest_s=0.05), TimedRound)
    assert time.monotonic() - begun >= 0.05


def test_a_round_is_timed_once_and_only_what_is_still_loaded(opened) -> None:
    _, _, session = opened
    session.obey(load())
    time_round(session)
    with pytest.raises(BadMessage, match="no round is prepared"):
        session.obey(TimeRound())


def test_what_does_not_fit_is_refused_and_nothing_is_lost(opened) -> None:
    _, _, session = opened
    session.obey(load())
    far = slots_of(BUNDLE, start=ARENA_BYTES, limit=2 * ARENA_BYTES)[0]
    reply = session.obey(execute(far))
    assert isinstance(reply, CommandRefused) and "an arena of" in reply.reason
    assert session.obey(execute()) == CommandDone()
    assert session.obey(Reset()) == CommandDone()


def test_what_the_card_lacks_is_refused(opened) -> None:
    _, _, session = opened
    session.obey(load(bundle=bundle_of(kernel(shared_bytes=300_000))))
    reply = session.obey(execute())
    assert isinstance(reply, CommandRefused) and "300000 bytes of shared memory" in reply.reason


def test_scrubbing_overwrites_the_whole_arena_and_forgets(opened) -> None:
    paper, memory, session = opened
    session.obey(load())
    session.obey(execute())
    time_round(session)
    memory.tensor(0, memory.bytes).fill_(7)
    session.obey(Reset())
    assert set(memory.tensor(0, memory.bytes).unique().tolist()) == {0xFF}
    assert (paper.unloaded, paper.destroyed) == (1, 1)
    with pytest.raises(BadMessage, match="no plan"):
        session.obey(execute())


def test_what_is_vacated_is_overwritten_and_no_more(opened) -> None:
    _, memory, session = opened
    session.obey(load())
    memory.tensor(0, memory.bytes).fill_(7)
    assert session.obey(PoisonRanges(ranges=((256, 512), (1024, memory.bytes)))) == CommandDone()
    expected = torch.full((memory.bytes,), 0xFF, dtype=torch.uint8)
    expected[:256] = expected[512:1024] = 7
    assert torch.equal(memory.tensor(0, memory.bytes), expected)
    assert session.obey(execute()) == CommandDone()


def test_loading_forgets_graphs_of_what_was_loaded_before(opened) -> None:
    paper, _, session = opened
    session.obey(load())
    time_round(session)
    session.obey(load())
    assert (paper.unloaded, paper.destroyed) == (1, 1)
    assert isinstance(time_round(session), TimedRound)


def test_orders_for_the_checker_are_refused(opened) -> None:
    _, _, session = opened
    with pytest.raises(BadMessage, match="'attend' is not a command for a runner"):
        session.obey(AttachArena(handle="", arena_bytes=0))


def test_a_fault_is_the_drivers(opened) -> None:
    paper, _, session = opened
    session.obey(load())
    paper.failing["work"] = Result.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DriverError) as caught:
        session.obey(execute())
    assert fault_of(caught.value) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert fault_of(RuntimeError("CUDA error: an illegal memory access")) == "CUDA_ERROR_ILLEGAL_ADDRESS"


@pytest.mark.parametrize("error", [DriverError("CUDA_ERROR_OUT_OF_MEMORY"), RuntimeError("no"), BadMessage("no")])
def test_other_errors_are_ours(opened, error: Exception) -> None:
    assert fault_of(error) is None


def test_a_card_without_room_for_a_candidates_local_memory_refuses_it(opened) -> None:
    paper, _, session = opened
    session.obey(load(local=4096))
    paper.failing["launch work"] = Result.CUDA_ERROR_OUT_OF_MEMORY
    paper.log.clear()
    reply = session.obey(execute())
    assert isinstance(reply, CommandRefused) and "local memory" in reply.reason
    assert paper.log[-1] == "synchronise"
    del paper.failing["launch work"]
    assert session.obey(execute()) == CommandDone()


@pytest.mark.parametrize(
    ("side", "local", "said"),
    [
        (PairSide.PACER, 4096, Result.CUDA_ERROR_OUT_OF_MEMORY),
        (PairSide.CANDIDATE, 0, Result.CUDA_ERROR_OUT_OF_MEMORY),
        (PairSide.CANDIDATE, 4096, Result.CUDA_ERROR_INVALID_VALUE),
    ],
)
def test_other_launches_that_fail_are_no_candidates_failure(opened, side: PairSide, local: int, said: Result) -> None:
    paper, _, session = opened
    session.obey(load(side, local=local))
    paper.failing["launch work"] = said
    with pytest.raises(DriverError, match=said.name):
        session.obey(execute(side=side))


def test_a_runner_has_no_arena_until_it_is_told_how_large() -> None:
    def be(channel: ChildChannel) -> None:
        with supported() as (_, support):
            serve(channel, lambda: OpenedCard(driver.open_card(0), support, arena))

    child = ForkedChild(be)
    greeting = child.hear(30)
    assert isinstance(greeting, ChildReady) and (greeting.handle, greeting.arena_bytes) == ("", 0)
    claimed = child.ask(ClaimArena(arena_bytes=2**16), 30)
    assert isinstance(claimed, ChildReady) and claimed.arena_bytes == 2**16 and claimed.card == greeting.card
    assert isinstance(child.ask(ClaimArena(arena_bytes=2**16), 30), ChildBroken)
    child.close()
    other = ForkedChild(be)
    other.hear(30)
    assert "needs an arena" in str(other.ask(Reset(), 30))
    other.close()


@pytest.mark.skipif(torch.version.cuda is not None, reason="the torch of this machine may find a card")
def test_a_runner_without_a_card_says_so_and_ends() -> None:
    child = ForkedChild(lambda channel: serve(channel, lambda: open_card(0, {})))
    reply = child.hear(30)
    child.close()
    assert isinstance(reply, ChildBroken) and reply.error.startswith("ToolMissing")
