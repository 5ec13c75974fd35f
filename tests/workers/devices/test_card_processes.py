"""A crew of real children: a runner with the driver on paper, a checker at a card on the CPU. Who fails is replaced."""

import os
import signal
import threading
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from tests.workers.oracle.paper import PaperCard
from tests.workers.paper_driver import Result
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
from workers.child_process import ChildChannel, ChildConnection, ForkedChild
from workers.commands import (
    AttachArena,
    ChildBroken,
    ChildReady,
    CommandDone,
    CommandRefused,
    DriverFault,
    ExecuteRuns,
    InputContent,
    LoadBundle,
    Order,
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
from workers.devices.card_processes import (
    ARENA_SHARE,
    LARGEST_SHARE,
    CardFailed,
    CardMemoryShort,
    CardProcesses,
    _failure,
)
from workers.devices.ending import JudgementEnded
from workers.errors import JobWaits, Transient, WorkerError
from workers.gpu_lock import FOLDER, GpuLock
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.examiner import Examiner
from workers.oracle.server import OracleSession, respond
from workers.protocol import CardShare, Outcome, Stage
from workers.runner import serve
from workers.runner.arena import ALIGNMENT
from workers.runner.session import OpenedCard
from workers.shared_process import SharedConnection
from workers.targets import TARGETS

NO_CARD = 63
"""Index of a card that no machine has."""
CARD_BYTES = ARENA_SHARE * (ARENA_BYTES + 1)
"""The memory of a card is no multiple of what arenas are multiples of."""
LARGEST_BYTES = CARD_BYTES // LARGEST_SHARE // ALIGNMENT * ALIGNMENT
ASK_S, BRIEF_S, SOON_S, WAIT_S = 30.0, 0.2, 0.3, 30.0
SEED = "ab" * 16
BUNDLE = bundle_of(kernel())
CODE = {digest: b64encode(each).decode() for digest, each in machine_code(BUNDLE).items()}
LOAD = LoadBundle(side=PairSide.CANDIDATE, operator=OPERATOR, bundle=BUNDLE, machine_code=CODE)
ROUND = TimingRound(
    plans={PairSide.CANDIDATE: 0},
    slots={PairSide.CANDIDATE: tuple(slots_of(BUNDLE))},
    samples=(TimedSample(side=PairSide.CANDIDATE, slots=(0,), streams=(0,)),),
    seed=SEED,
)


def run(address: str, deed: str, card_bytes: int, channel: ChildChannel) -> None:
    """Be a runner on paper, whose kernels work, fault or never end."""
    with supported() as (paper, support):
        paper.address = address
        paper.total_bytes = card_bytes
        if deed == "faults":
            paper.failing["work"] = Result.CUDA_ERROR_ILLEGAL_ADDRESS
        if deed == "hangs":
            paper.deeds["work"] = lambda _: threading.Event().wait()
        serve(channel, lambda: OpenedCard(driver.open_card(0), support, arena))


def seeing() -> PaperCard:
    """A card at which a checker sees an arena of its own."""
    card = PaperCard()
    card.arenas[(b"\7" * 64).hex()] = torch.zeros(2 * LARGEST_BYTES, dtype=torch.uint8)
    return card


class Cramped(OracleSession):
    """Has too little memory for one kind of order, and a reference that stops the card for another."""

    def answer(self, order: Order) -> Reply:
        if isinstance(order, PoisonRanges):
            return DriverFault(error="the reference fails")
        return CommandRefused(reason="too little memory") if isinstance(order, Reset) else super().answer(order)


def receive() -> OracleSession:
    """Be a checker that several share."""
    return Cramped(ChildReady(card="Paper H200"), Examiner(seeing(), AnswerCache(0)))


def check(dies: bool, blind: bool, channel: ChildChannel) -> None:
    """Be a checker that sees an arena of its own."""
    examiner = Examiner(seeing(), AnswerCache(0))
    channel.answer(ChildReady(card="Paper H200"))
    for order in channel.orders():
        if blind and isinstance(order, AttachArena) and order.handle:
            channel.answer(ChildBroken(error="it cannot look there"))
            continue
        if dies and not isinstance(order, AttachArena):
            return
        channel.answer(respond(examiner, order))


@pytest.fixture
def address() -> Iterator[str]:
    """Of a card that nobody else takes turns on."""
    found = uuid.uuid4().hex
    yield found
    for file in FOLDER.glob(f"*{found}*"):
        file.unlink()


@pytest.fixture
def crew_that(address: str) -> Iterator[object]:
    begun: list[CardProcesses] = []

    def start(
        deed: str = "works",
        *,
        checker_dies: bool = False,
        checker_blind: bool = False,
        sharers: int = 1,
        card_bytes: int = 2**30,
        start_oracle: Callable[[], ChildConnection] | None = None,
        provided: bool = True,
    ) -> CardProcesses:
        start_oracle = start_oracle or partial(ForkedChild, partial(check, checker_dies, checker_blind))
        begun.append(
            CardProcesses(partial(run, address, deed, card_bytes), start_oracle, sharers * CARD_BYTES, sharers)
        )
        if provided:
            begun[-1].provide(64)
        return begun[-1]

    yield start
    for processes in begun:
        processes.close()


def execute(processes: CardProcesses, timeout_s: float = ASK_S) -> object:
    if not processes.arena_bytes:
        processes.provide(64)
    processes.replay(LOAD, ASK_S, Stage.CHECK)
    case = RunCase(plan=0, slot=slots_of(BUNDLE)[0], content=InputContent(draw="normal", seed=SEED))
    return processes.replay(ExecuteRuns(side=PairSide.CANDIDATE, cases=(case,), zones=SEED), timeout_s, Stage.CHECK)


def test_a_card_that_is_not_there_is_a_failure_of_ours():
    with pytest.raises(WorkerError) as caught:
        CardProcesses.at(CardShare(NO_CARD), TARGETS["sm_90"])
    assert str(caught.value)


def test_a_failing_card_may_work_again():
    assert issubclass(CardFailed, Transient)


def test_plans_are_run_and_looked_at(crew_that):
    processes = crew_that()
    assert execute(processes) == CommandDone()
    processes.replay(PrepareRound(round=ROUND), ASK_S, Stage.TIME)
    timed = processes.replay(TimeRound(), ASK_S, Stage.TIME)
    assert isinstance(timed, TimedRound) and timed.samples_us == pytest.approx((1.0,))
    handle = processes.opened.handle
    assert processes.look(AttachArena(handle=handle, arena_bytes=processes.arena_bytes)).outcome is None
    assert processes.spent_s.keys() == {"load", "execute", "prepare", "time", "attend"}


@pytest.mark.parametrize(("deed", "outcome"), [("faults", Outcome.DEVICE_FAULT), ("hangs", Outcome.HANG)])
def test_who_costs_the_runner_is_told_and_the_spare_takes_over(crew_that, deed: str, outcome: Outcome):
    processes = crew_that(deed)
    for _ in range(2):
        with pytest.raises(JudgementEnded) as ended:
            execute(processes, BRIEF_S)
        assert (ended.value.found["stage"], ended.value.found["outcome"]) == (Stage.CHECK, outcome)
        assert processes.replay(Reset(), ASK_S, Stage.CHECK) == CommandDone()


def test_an_arena_grows_for_a_plan_and_is_as_usual_for_the_next(crew_that):
    processes = crew_that()
    sizes = []
    for needed in (64, ARENA_BYTES + 1, ARENA_BYTES + 1, LARGEST_BYTES, ARENA_BYTES):
        processes.provide(needed)
        sizes.append(processes.arena_bytes)
        assert execute(processes) == CommandDone()
    grown = ARENA_BYTES + ALIGNMENT
    assert sizes == [ARENA_BYTES, grown, grown, LARGEST_BYTES, ARENA_BYTES]


def test_a_card_with_less_memory_than_its_kind_is_not_asked_for_more(crew_that):
    processes = crew_that(card_bytes=CARD_BYTES // 2)
    assert processes.arena_bytes == CARD_BYTES // 2 // ARENA_SHARE // ALIGNMENT * ALIGNMENT


def test_a_checker_that_never_sees_an_arena_is_replaced_once(crew_that):
    with pytest.raises(CardFailed, match="it cannot look there"):
        crew_that(checker_blind=True)


def test_room_is_made_for_others_on_the_card(crew_that):
    processes = crew_that()
    processes.make_room()
    assert execute(processes) == CommandDone()
    assert "forget" in processes.spent_s


def test_a_runner_whose_arena_is_large_enough_stays(crew_that):
    processes = crew_that()
    begun = processes._runner.pid
    for needed in (64, ARENA_BYTES):
        processes.provide(needed)
        assert processes._runner.pid == begun


def test_a_runner_gives_way_to_its_spare_after_so_many_jobs(crew_that, monkeypatch):
    monkeypatch.setattr("workers.devices.card_processes.JOBS_PER_RUNNER", 3)
    processes, runners = crew_that(provided=False), []
    for _ in range(7):
        processes.provide(64)
        runners.append(processes._runner.pid)
        assert execute(processes) == CommandDone() and processes.arena_bytes == ARENA_BYTES
    assert [runners.index(runner) for runner in runners] == [0, 0, 0, 3, 3, 3, 6]


def test_what_no_arena_has_room_for_is_refused(crew_that):
    processes = crew_that()
    with pytest.raises(JudgementEnded, match="the maximum here is") as ended:
        processes.provide(CARD_BYTES // LARGEST_SHARE + 1)
    assert ended.value.found["outcome"] is Outcome.PLAN_REJECTED
    assert processes.arena_bytes == ARENA_BYTES


def test_a_sharer_gets_most_of_the_card_for_one_job_while_others_wait(crew_that):
    one, other = (crew_that(sharers=3) for _ in range(2))
    beside = (3 * CARD_BYTES - 2 * ARENA_BYTES) // LARGEST_SHARE // ALIGNMENT * ALIGNMENT
    assert one.arena_bytes == ARENA_BYTES and one.memory_bytes == 3 * CARD_BYTES
    one.provide(CARD_BYTES // LARGEST_SHARE)
    other.provide(CARD_BYTES // LARGEST_SHARE)  # Half of a share each has room beside the other.
    one.provide(beside)
    sizes: list[int] = []

    def judge() -> None:
        other.provide(beside)
        sizes.append(other.arena_bytes)
        other.settle()
        sizes.append(other.arena_bytes)

    waiting = threading.Thread(target=judge)
    waiting.start()
    waiting.join(SOON_S)
    assert not sizes and one.arena_bytes == beside
    one.settle()
    assert execute(one) == CommandDone() and one.arena_bytes == ARENA_BYTES
    waiting.join(WAIT_S)
    assert sizes == [beside, 0], "an arena of the usual size is claimed for the next job"


def test_a_card_without_sharers_keeps_a_large_arena_for_the_next_job(crew_that):
    processes = crew_that()
    processes.provide(LARGEST_BYTES)
    processes.settle()
    assert processes.arena_bytes == LARGEST_BYTES


def test_a_runner_that_is_lost_gives_way_to_one_with_as_large_an_arena(crew_that):
    processes = crew_that("faults")
    processes.provide(LARGEST_BYTES)
    with pytest.raises(JudgementEnded):
        execute(processes, BRIEF_S)
    assert processes.arena_bytes == LARGEST_BYTES


def test_what_hangs_is_ended_before_anybody_else_has_a_turn(crew_that, address: str):
    processes, other = crew_that("hangs"), GpuLock(address)
    hanging = processes._runner.pid
    alive: list[bool] = []

    def time_something() -> None:
        with other.exclusive():
            alive.append(Path(f"/proc/{hanging}").exists())

    def hang() -> None:
        with pytest.raises(JudgementEnded):
            execute(processes, SOON_S)

    asking = threading.Thread(target=hang)
    asking.start()
    while "load" not in processes.spent_s:
        time.sleep(0.01)
    waiting = threading.Thread(target=time_something)
    waiting.start()
    asking.join(WAIT_S)
    waiting.join(WAIT_S)
    assert alive == [False]
    other.close()


def test_a_checker_that_is_lost_is_a_failure_of_ours_and_replaced(crew_that):
    processes = crew_that(checker_dies=True)
    with pytest.raises(CardFailed, match="the oracle is lost"):
        processes.look(LOAD)
    assert processes.look(AttachArena(handle=processes.opened.handle, arena_bytes=64)).outcome is None


def test_crews_that_share_a_checker_go_on_with_another_one_when_it_is_lost(crew_that, tmp_path: Path):
    hire = {"sharers": 2, "start_oracle": partial(SharedConnection, tmp_path / "checker", receive)}
    one, other = crew_that(**hire), crew_that(**hire)
    lost = one._oracle.pid
    assert other._oracle.pid == lost
    os.kill(lost, signal.SIGKILL)
    for processes in (one, other):
        with pytest.raises(CardFailed, match="the oracle is lost"):
            processes.make_room()
        processes.make_room()
        assert execute(processes) == CommandDone()
    assert one._oracle.pid == other._oracle.pid != lost
    one.close()
    other.make_room()


def test_a_checker_that_cannot_be_called_leaves_nobody_behind(crew_that, tmp_path: Path):
    (tmp_path / "checker").mkdir(mode=0o755)
    before = set(psutil.Process().children())
    with pytest.raises(Transient, match="this user alone"):
        crew_that(sharers=2, start_oracle=partial(SharedConnection, tmp_path / "checker", receive))
    assert set(psutil.Process().children()) == before


def test_what_a_shared_checker_has_no_memory_for_costs_nobody_else_anything(crew_that, tmp_path: Path):
    hire = {"sharers": 2, "start_oracle": partial(SharedConnection, tmp_path / "checker", receive)}
    one, other = crew_that(**hire), crew_that(**hire)
    oracle = one._oracle.pid
    with pytest.raises(CardMemoryShort, match="the oracle failed: too little memory"):
        one.look(Reset())
    for processes in (other, one):
        processes.make_room()
        assert execute(processes) == CommandDone()
    assert (one._oracle.pid, other._oracle.pid) == (oracle, oracle)


def test_a_reference_that_stops_the_card_is_a_refusal_and_the_oracle_is_replaced(crew_that, tmp_path: Path):
    hire = {"sharers": 2, "start_oracle": partial(SharedConnection, tmp_path / "checker", receive)}
    one, other = crew_that(**hire), crew_that(**hire)
    lost = one._oracle.pid
    found = one.look(PoisonRanges(ranges=()))
    assert (found.outcome, found.reason) == (Outcome.TRACE_CRASHED, "the reference fails")
    one.make_room()
    with pytest.raises(CardFailed, match="the oracle is lost"):
        other.make_room()
    other.make_room()
    assert one._oracle.pid == other._oracle.pid != lost


@pytest.mark.parametrize(
    ("reply", "lacking"),
    [
        (CommandRefused(reason="the card's memory does not suffice"), True),
        (ChildBroken(error="OutOfMemoryError: CUDA out of memory. Tried to allocate 34.00 GiB"), True),
        (ChildBroken(error="DriverError: CUDA_ERROR_OUT_OF_MEMORY"), True),
        (ChildBroken(error="ValueError: it does not lie in the arena"), False),
    ],
)
def test_too_little_memory_is_told_from_what_is_broken(reply: Reply, lacking: bool):
    failure = _failure("the oracle failed", reply)
    assert isinstance(failure, CardMemoryShort) is lacking and isinstance(failure, CardFailed)
    assert str(failure).startswith("the oracle failed: ")


def waits_until_left(turn: AbstractContextManager[None], ask: Callable[[], object]) -> bool:
    """Whether what is asked for in somebody else's turn is not done before that is left, and then it is."""
    asking = threading.Thread(target=ask)
    with turn:
        asking.start()
        asking.join(SOON_S)
        waits = asking.is_alive()
    asking.join(WAIT_S)
    return waits and not asking.is_alive()


def test_nothing_is_run_or_looked_at_while_somebody_else_times(crew_that, address: str):
    processes, other = crew_that(), GpuLock(address)
    for ask in (
        lambda: execute(processes),
        lambda: processes.look(AttachArena(handle=processes.opened.handle, arena_bytes=64)),
    ):
        assert waits_until_left(other.exclusive(), ask)
    other.close()


def test_only_timing_waits_for_those_who_do_not_time(crew_that, address: str):
    processes, other = crew_that(), GpuLock(address)
    with other.shared():
        assert execute(processes) == CommandDone()
        processes.replay(PrepareRound(round=ROUND), ASK_S, Stage.TIME)
    assert waits_until_left(other.shared(), lambda: processes.replay(TimeRound(), ASK_S, Stage.TIME))
    other.close()


def test_kernels_that_do_not_bear_to_be_interrupted_are_alone(crew_that, address: str):
    processes, other = crew_that(), GpuLock(address)
    assert waits_until_left(other.shared(), lambda: processes.replay(Reset(), ASK_S, Stage.CHECK, exclusive=True))
    other.close()


def test_waiting_for_a_turn_is_nobodys_hang(crew_that, address: str):
    processes, other = crew_that(), GpuLock(address)
    processes.replay(LOAD, ASK_S, Stage.CHECK)
    processes.replay(PrepareRound(round=ROUND), ASK_S, Stage.TIME)
    told: list[object] = []
    timing = threading.Thread(target=lambda: told.append(processes.replay(TimeRound(), BRIEF_S, Stage.TIME)))
    with other.shared():
        timing.start()
        timing.join(2 * BRIEF_S)
    timing.join(WAIT_S)
    assert isinstance(told[0], TimedRound)
    other.close()


def test_a_hang_is_found_later_where_the_card_is_shared(crew_that):
    processes = crew_that("hangs", sharers=4)
    with pytest.raises(JudgementEnded, match=f"within {BRIEF_S:g} s"):
        execute(processes, BRIEF_S)
    assert 4 * BRIEF_S <= processes.spent_s["execute"] < ASK_S


def short_beside(processes: CardProcesses, others: list[CardProcesses], tried: list[bool]) -> Callable[[], str]:
    """Work that has too little memory for as long as any other crew has some of the card."""

    def work() -> str:
        processes.provide(64)
        tried.append(processes._memory.is_alone)
        if any(other.arena_bytes for other in others):
            raise CardMemoryShort("the oracle failed: 52.3 GB")
        return "done"

    return work


def result_beside(waiting: Future[Any], rest: Callable[[], None]) -> Any:
    """Return what one waits for while another process gives up what is asked for, which may not be the case at once."""
    until = time.monotonic() + WAIT_S
    while not waiting.done() and time.monotonic() < until:
        rest()
        wait([waiting], SOON_S)
    return waiting.result(0)


def test_work_that_is_short_of_memory_waits_until_no_other_process_has_any(crew_that):
    processes, other = crew_that(sharers=2), crew_that(sharers=2)
    tried: list[bool] = []
    work = short_beside(processes, [other], tried)
    with ThreadPoolExecutor(2) as pool:  # A runner ends with the thread that started it.
        waiting = pool.submit(processes.with_memory, "digest", work)
        until = time.monotonic() + WAIT_S
        while (not tried or processes.arena_bytes) and time.monotonic() < until:
            wait([waiting], SOON_S)
        assert tried == [False] and not waiting.done() and not processes.arena_bytes, "it holds nothing meanwhile"
        assert result_beside(waiting, other.rest) == "done" and tried == [False, True] and not other.arena_bytes
        processes.settle()
        later = pool.submit(other.provide, 64)
        wait([later], SOON_S)
        assert not later.done() and not other.arena_bytes, "one that comes later waits too"
        result_beside(later, processes.rest)
        assert other.arena_bytes == ARENA_BYTES and execute(other) == CommandDone()
        other.release_memory()
        assert processes.with_memory("digest", work) == "done" and tried == [False, True, True], "it is known"


def test_a_busy_process_gives_its_memory_up_when_its_job_ends(crew_that):
    processes, other = crew_that(sharers=2), crew_that(sharers=2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(processes.take_card)
        wait([waiting], SOON_S)
        assert not waiting.done() and execute(other) == CommandDone()
        result_beside(waiting, other.settle)
        assert not other.arena_bytes


def use_memory(folder: Path, monkeypatch: pytest.MonkeyPatch, used_mib: int) -> None:
    """Have the driver's tool tell so many MiB in use."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho {used_mib}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def always_short() -> None:
    raise CardMemoryShort("the oracle failed: it takes more than 90.1 GB")


def test_what_an_empty_card_has_no_memory_for_is_refused_with_how_much_it_takes(crew_that, monkeypatch, tmp_path):
    use_memory(tmp_path, monkeypatch, 1)
    processes = crew_that()
    with pytest.raises(
        JudgementEnded, match=r"does not fit a card of .* empty but for it: .* more than 90.1 GB"
    ) as ended:
        processes.with_memory("digest", always_short)
    assert ended.value.found["outcome"] is Outcome.PLAN_REJECTED
    assert execute(processes) == CommandDone()


def test_what_other_programs_hold_the_memory_of_is_no_failure_of_the_candidate(crew_that, monkeypatch, tmp_path):
    use_memory(tmp_path, monkeypatch, 512)
    processes = crew_that()
    with pytest.raises(CardMemoryShort, match=r"other programs hold 0.5 GB of the card: .* 90.1 GB") as caught:
        processes.with_memory("digest", always_short)
    assert isinstance(caught.value, JobWaits)
    assert execute(processes) == CommandDone()


def test_an_arena_that_fits_beside_no_other_one_takes_the_whole_card(crew_that):
    processes = crew_that(sharers=3)
    processes.provide(processes.memory_bytes // LARGEST_SHARE)
    assert processes._memory.is_alone
    processes.settle()
    assert not processes.arena_bytes
    processes.provide(64)
    assert processes.arena_bytes == ARENA_BYTES


def test_a_runner_that_finds_no_room_for_an_arena_is_replaced(crew_that):
    processes = crew_that(provided=False)
    with pytest.raises(CardFailed, match="no room for an arena"):
        processes._claim(2**62)
    assert execute(processes) == CommandDone() and processes.arena_bytes == ARENA_BYTES
