"""The runner on a card: what it runs, how it times, and how it ends."""

from base64 import b64encode
from collections.abc import Iterator
from statistics import median

import pytest

from tests.gpu.runner.card import ARENA_BYTES, look, on_card, rmsnorm, slots_of, support_kernels
from tests.workers.assembler.plans import RMSNORM
from workers.assembler import assemble_kernel
from workers.child_process import ChildDied, ForkedChild
from workers.commands import (
    TIMED,
    ChildBroken,
    ChildReady,
    ClaimArena,
    CommandDone,
    CommandRefused,
    DriverFault,
    ExecuteRuns,
    InputContent,
    LoadBundle,
    PairSide,
    PrepareRound,
    Reset,
    RunCase,
    RunSlot,
    TimedRound,
    TimedSample,
    TimeRound,
    TimingRound,
)
from workers.inputs import DRAWS
from workers.protocol import Bundle, Launch, Number
from workers.runner import open_card, serve

pytestmark = pytest.mark.gpu
ASK_S = 60.0
SEED = "ab" * 16
NORMAL = InputContent(draw="normal", seed=SEED)


@pytest.fixture
def runner() -> Iterator[tuple[ForkedChild, ChildReady]]:
    kernels = support_kernels()
    child = ForkedChild(lambda channel: serve(channel, lambda: open_card(0, kernels)))
    assert isinstance(child.hear(ASK_S), ChildReady)
    greeting = child.ask(ClaimArena(arena_bytes=ARENA_BYTES), ASK_S)
    assert isinstance(greeting, ChildReady), greeting
    yield child, greeting
    child.close()


def load(child: ForkedChild, bundle: Bundle, *sides: PairSide) -> None:
    code = {digest: b64encode(assemble_kernel(kernel).code).decode() for digest, kernel in bundle.kernels.items()}
    for side in sides or (PairSide.CANDIDATE,):
        order = LoadBundle(side=side, operator=RMSNORM, bundle=bundle, machine_code=code)
        assert child.ask(order, ASK_S) == CommandDone()


def execute(plan: int, slot: RunSlot, content: InputContent = NORMAL) -> ExecuteRuns:
    return ExecuteRuns(side=PairSide.CANDIDATE, cases=(RunCase(plan=plan, slot=slot, content=content),), zones=SEED)


def check_seen(seen: dict[str, object]) -> None:
    assert seen["inputs"] and seen["finite"] and seen["damaged"] == 0, seen
    assert seen["error"] < 3e-3, seen


@pytest.mark.parametrize("plan", [0, 1])
@pytest.mark.parametrize("name", [*DRAWS, TIMED])
def test_a_run_computes_what_it_should_on_what_the_checker_draws(runner, plan: int, name: str) -> None:
    child, greeting = runner
    bundle = rmsnorm()
    load(child, bundle)
    (slot,) = slots_of(bundle, bundle.plans[plan], start=512)
    content = InputContent(draw=name, seed=SEED, stream=3)
    assert child.ask(execute(plan, slot, content), ASK_S) == CommandDone()
    check_seen(on_card(look, greeting, bundle.plans[plan], slot, content))


@pytest.mark.parametrize(("plan", "calls"), [(0, 1), (0, 32), (1, 1), (1, 4)])
def test_equal_plans_take_equal_time(runner, plan: int, calls: int) -> None:
    child, greeting = runner
    bundle = rmsnorm()
    load(child, bundle, *PairSide)
    pairs = 8
    mine = slots_of(bundle, bundle.plans[plan], pairs * calls)
    its = slots_of(bundle, bundle.plans[plan], pairs * calls, start=mine[-1].end)
    samples = tuple(
        TimedSample(side=side, slots=places, streams=tuple(place + (side is PairSide.PACER) for place in places))
        for pair in range(pairs)
        for places in [tuple(range(pair * calls, (pair + 1) * calls))]
        for side in (list(PairSide) if pair % 2 else list(PairSide)[::-1])
    )
    order = TimingRound(
        plans=dict.fromkeys(PairSide, plan),
        slots={PairSide.CANDIDATE: mine, PairSide.PACER: its},
        samples=samples,
        seed=SEED,
    )
    for _ in range(2):
        assert child.ask(PrepareRound(round=order), ASK_S) == CommandDone()
        reply = child.ask(TimeRound(), ASK_S)
        assert isinstance(reply, TimedRound), reply
    first, second = (
        median(us for sample, us in zip(samples, reply.samples_us, strict=True) if sample.side is side)
        for side in PairSide
    )
    assert 1 < first < 40
    assert abs(first / second - 1) < (0.02 if calls > 1 else 0.15)
    assert sum(reply.samples_us) * calls < reply.wall_us
    last = samples[-1]
    slot = order.slots[last.side][last.slots[-1]]
    content = InputContent(draw=TIMED, seed=SEED, stream=last.streams[-1])
    check_seen(on_card(look, greeting, bundle.plans[plan], slot, content))


def test_a_run_that_leaves_its_memory_ends_the_runner(runner) -> None:
    child, _ = runner
    bundle = rmsnorm()
    plan = bundle.plans[0]
    steps = tuple(
        step.model_copy(update={"arguments": (*step.arguments[:3], Number(type="i32", value=2**30), step.arguments[4])})
        if isinstance(step, Launch)
        else step
        for step in plan.steps
    )
    wild = bundle.model_copy(update={"plans": (plan.model_copy(update={"steps": steps}),)})
    load(child, wild)
    (slot,) = slots_of(wild, wild.plans[0])
    order = execute(0, slot)
    assert child.ask(order, ASK_S) == DriverFault(error="CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(ChildDied):
        child.hear(ASK_S)


def test_what_does_not_fit_is_refused_and_scrubbing_forgets(runner) -> None:
    child, _ = runner
    bundle = rmsnorm()
    load(child, bundle)
    (near,), (far,) = (
        slots_of(bundle, bundle.plans[0], start=start, limit=2 * ARENA_BYTES) for start in (0, ARENA_BYTES)
    )
    near, far = (execute(0, slot) for slot in (near, far))
    assert isinstance(child.ask(far, ASK_S), CommandRefused)
    assert child.ask(near, ASK_S) == CommandDone()
    assert child.ask(Reset(), ASK_S) == CommandDone()
    reply = child.ask(near, ASK_S)
    assert isinstance(reply, ChildBroken) and "no plan 0" in reply.error
