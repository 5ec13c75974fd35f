import ctypes
import gc
from collections.abc import Iterator

import pytest

from tests.workers.oracle.paper import keyed_sum
from tests.workers.paper_driver import Paper, code, on_paper
from tests.workers.runner.plans import COUNT, OPERATOR, arena, bundle_of, kernel, machine_code, slots_of, supported
from workers import driver
from workers.commands import PairSide, RunSlot, TimedSample, TimingRound
from workers.device_kernels import checksum_key, stream_seed, timed_content, zone_seed
from workers.errors import BadMessage
from workers.memory_layout import written
from workers.protocol import Bundle
from workers.runner.arena import Arena
from workers.runner.filling import SlotFiller
from workers.runner.loaded_plans import LoadedPlan
from workers.runner.replay import LoadedKernels, ReplayedPlan
from workers.runner.rounds import RoundGraphs, TimedRounds, check_round

SEED = "cd" * 16
US = {PairSide.CANDIDATE: 20.0, PairSide.PACER: 30.0}
REFILL = ["fill_float32", "poison", "flush", "delay"]


class Stage:
    """Both sides on paper: a candidate whose kernel takes 20 us, and a pacer whose kernel takes 30."""

    def __init__(self, paper: Paper, support) -> None:
        self.paper = paper
        self.memory: Arena = arena()
        self.bundle: Bundle = bundle_of(kernel())
        self.loaded_plans = {side: self._entrant(US[side]) for side in PairSide}
        self.rounds = TimedRounds(support, SlotFiller(support, self.memory, 5), 5)
        self.seen: list[tuple[int, int, int]] = []
        paper.deeds["work"] = self._look

    def run(self, order: TimingRound):
        self.rounds.prepare(order, self.loaded_plans)
        return self.rounds.time()

    def time(self, *samples: TimedSample):
        timed = self.run(round_of(*samples))
        self.paper.log.clear()
        self.seen.clear()
        return timed

    def _entrant(self, us: float) -> LoadedPlan:
        plan = self.bundle.plans[0]
        loaded = ReplayedPlan(LoadedKernels(self.bundle, machine_code(self.bundle, us=us)), plan, self.memory)
        return LoadedPlan(OPERATOR, loaded, timed_content(OPERATOR, plan.shape))

    def _look(self, launched) -> None:
        """Note what input and output hold when the kernel starts, and write a result and into the input."""
        x, y = (launched.parameters[index] - 4 * index - self.memory.pointer for index in (0, 1))
        given, result = self.memory.tensor(x, 4 * COUNT), self.memory.tensor(y, 4 * COUNT)
        self.seen.append((x, int(given[-1]), int(result[-1])))
        given.fill_(1)
        result.fill_(2)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with supported() as (paper, support):
        yield Stage(paper, support)


def slots() -> dict[PairSide, tuple[RunSlot, ...]]:
    bundle = bundle_of(kernel())
    first = slots_of(bundle, 4)
    return {PairSide.CANDIDATE: tuple(first), PairSide.PACER: tuple(slots_of(bundle, 4, start=first[-1].end, seed=2))}


def round_of(*samples: TimedSample) -> TimingRound:
    return TimingRound(plans=dict.fromkeys(PairSide, 0), slots=slots(), samples=samples, seed=SEED)


def sample(side: PairSide, *places: int, streams: tuple[int, ...] | None = None) -> TimedSample:
    return TimedSample(side=side, slots=places, streams=places if streams is None else streams)


MINE, ITS = PairSide.CANDIDATE, PairSide.PACER


def test_only_calls_are_timed(stage: Stage) -> None:
    timed = stage.time(sample(MINE, 0), sample(ITS, 0, 1), sample(ITS, 2), sample(MINE, 1, 2, 3))
    assert timed.samples_us == pytest.approx((20.0, 30.0, 30.0, 20.0))
    assert timed.wall_us > 0


def test_a_sample_refills_flushes_and_holds_before_it_is_timed(stage: Stage) -> None:
    stage.time(sample(MINE, 3), sample(ITS, 3))
    stage.run(round_of(sample(ITS, 0), sample(MINE, 0, 1)))
    sample_of_one = [*REFILL, "event", "work", "event"]
    sample_of_two = [*REFILL, "event", "graph", "event", "sum_up"]
    assert stage.paper.log == ["fill_zones", "synchronise", "reset", *sample_of_one, *sample_of_two, "synchronise"]


def test_the_graphs_of_a_round_are_gone_with_the_next(stage: Stage) -> None:
    for destroyed in (0, 2, 4):
        stage.time(sample(MINE, 0, 1), sample(ITS, 2, 3))
        assert stage.paper.destroyed == destroyed


def test_plans_that_are_new_are_run_once_before(stage: Stage) -> None:
    stage.run(round_of(sample(ITS, 0), sample(MINE, 0), sample(ITS, 1)))
    before = stage.paper.log[: stage.paper.log.index("fill_zones")]
    assert before == ["fill_float32", "poison", "work", "synchronise"] * 2
    assert stage.paper.log[len(before) :][:3] == ["fill_zones", "synchronise", "reset"]
    stage.paper.log.clear()
    stage.rounds.drop()
    stage.run(round_of(sample(ITS, 2)))
    assert stage.paper.log.count("work") == 2


def test_every_timed_call_finds_fresh_content(stage: Stage) -> None:
    stage.time(sample(MINE, 0), sample(ITS, 0))
    order = round_of(sample(ITS, 1, 0, streams=(5, 6)), sample(MINE, 2, streams=(8,)))
    stage.run(order)
    places = [order.slots[ITS][1], order.slots[ITS][0], order.slots[MINE][2]]
    expected = [
        (slot.buffers[0], stream_seed(SEED, 0, stream) & 0xFF, 0xFF)
        for slot, stream in zip(places, (5, 6, 8), strict=True)
    ]
    assert stage.seen == expected


def test_red_zones_of_timed_slots_have_their_pattern_afterwards(stage: Stage) -> None:
    order = round_of(sample(ITS, 1, 0), sample(MINE, 2))
    stage.run(order)
    for slot in (order.slots[ITS][1], order.slots[ITS][0], order.slots[MINE][2]):
        for offset, size in slot.zones:
            assert set(stage.memory.tensor(offset, size).tolist()) == {zone_seed(SEED) & 0xFF}
    offset, size = order.slots[MINE][3].zones[0]
    assert set(stage.memory.tensor(offset, size).tolist()) == {0}


def test_decoys_are_filled_as_slots_are_and_nothing_is_run_on_them(stage: Stage) -> None:
    order = round_of(TimedSample(side=MINE, slots=(2, 0), decoys=(3,), streams=(4, 5, 6)), sample(ITS, 1))
    assert stage.run(order).samples_us == pytest.approx((20.0, 30.0))
    decoy = order.slots[MINE][3]
    assert [case.slot for case in order.decoys(MINE)] == [decoy] and order.decoys(ITS) == ()
    assert [case.slot for case in order.cases(MINE)] == [order.slots[MINE][2], order.slots[MINE][0]]
    assert decoy.buffers[0] not in {offset for offset, *_ in stage.seen}
    given, result, _ = (set(stage.memory.tensor(offset, 4 * COUNT).tolist()) for offset in decoy.buffers)
    assert given == {stream_seed(SEED, 0, 6) & 0xFF} and result == {0xFF}
    for offset, size in decoy.zones:
        assert set(stage.memory.tensor(offset, size).tolist()) == {zone_seed(SEED) & 0xFF}


def test_what_a_stranger_may_write_is_sealed_when_its_sample_is_over(stage: Stage) -> None:
    samples = (sample(MINE, 0, 1), sample(ITS, 0), TimedSample(side=MINE, slots=(3,), decoys=(2,), streams=(4, 5)))
    for untrusted_sides in ((MINE,), (MINE, ITS), ()):
        order = round_of(*samples).model_copy(update={"untrusted_sides": untrusted_sides})
        checksums = stage.run(order).checksums
        for each, checksum in zip(samples, checksums, strict=True):
            places = [order.slots[each.side][index] for index in each.filled]
            ranges = [stretch for slot in places for stretch in written(OPERATOR, slot)]
            total = sum(
                keyed_sum(stage.memory.pointer + start, end - start, checksum_key(SEED)) for start, end in ranges
            )
            assert checksum == (ctypes.c_int64(total).value if each.side in untrusted_sides else 0)


def test_slots_are_filled_in_no_order(stage: Stage) -> None:
    order = round_of(TimedSample(side=MINE, slots=(0, 1, 2), decoys=(3,), streams=(0, 1, 2, 3)))
    mine = [slot.buffers[0] + stage.memory.pointer for slot in order.slots[MINE]]
    last = set()
    for _ in range(60):
        refill = SlotFiller(stage.rounds._support, stage.memory, 5).prepare(
            stage.loaded_plans[MINE], order.slots[MINE], SEED, (0, 1, 2, 3)
        )
        last.add(mine.index(refill.jobs[-1].pointer))
    assert last == {0, 1, 2, 3}


def test_a_call_that_is_queued_by_the_host_is_waited_for_longer(stage: Stage) -> None:
    stage.time(sample(MINE, 0), sample(MINE, 1, 2))
    delays = [launched.parameters[0] for launched in stage.paper.launched if launched.does == "delay"]
    assert delays == [50_000 + 3 * 5_000, 50_000]


def test_clocks_are_read_before_every_sample_and_events_and_timer_count_from_the_first_on(stage: Stage) -> None:
    held: list[int] = []

    def hold(launched) -> None:
        held.append(round(stage.paper.now_us * 1e3))
        told = (ctypes.c_int64 * 3).from_address(launched.parameters[1])
        told[:] = [50_000 * (2 + len(held)), 50_000, held[-1]]

    stage.time(sample(MINE, 0), sample(ITS, 0))
    stage.paper.deeds["delay"] = hold
    timed = stage.run(round_of(sample(MINE, 0), sample(ITS, 1, 2), sample(ITS, 0)))
    assert timed.clocks_mhz == pytest.approx((3000, 4000, 5000))
    assert timed.holds_us == pytest.approx([(ended - held[0]) / 1e3 for ended in held])
    assert timed.starts_us == pytest.approx(timed.holds_us) and timed.holds_us[-1] > 20 + 2 * 30


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ((TimedSample(side=MINE, slots=(0,), decoys=(1,), streams=(1,)),), "lacks"),
        ((TimedSample(side=MINE, slots=(0,), decoys=(4,), streams=(1, 2)),), "does not exist"),
        ((TimedSample(side=MINE, slots=(0,), decoys=(0,), streams=(1, 2)),), "used twice"),
        ((sample(MINE, 4),), "does not exist"),
        ((sample(MINE, -1),), "does not exist"),
        ((sample(MINE, 0, 1, streams=(1,)),), "lacks"),
        ((sample(MINE),), "lacks"),
        ((sample(MINE, 1, 1),), "used twice"),
        ((sample(MINE, 1), sample(ITS, 1), sample(MINE, 0, 1)), "used twice"),
    ],
)
def test_a_round_that_contradicts_itself_is_refused(samples: tuple[TimedSample, ...], why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        check_round(round_of(*samples))


def test_a_side_without_a_plan_is_not_timed() -> None:
    order = TimingRound(plans={MINE: 0}, slots=slots(), samples=(sample(ITS, 0),), seed=SEED)
    with pytest.raises(BadMessage, match="lacks a plan"):
        check_round(order)


def test_no_garbage_is_collected_while_samples_are_enqueued(stage):
    on: list[bool] = []
    stage.rounds.prepare(round_of(sample(MINE, 0), sample(ITS, 0)), stage.loaded_plans)
    stage.paper.deeds["work"] = lambda _: on.append(gc.isenabled())
    stage.rounds.time()
    assert on == [False, False]
    assert gc.isenabled()


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper() as found:
        yield found


def calls(count: int) -> list:
    """As many launches of a kernel, each with its number."""
    function = driver.load_function(code(1, "work"), "kernel", 0)
    launch = driver.make_launcher(function, (1, 1, 1), 32, 0)
    kept = [driver.LaunchParameters([number]) for number in range(count)]
    return [lambda stream, each=each: launch(stream, each.address) for each in kept]


def test_calls_run_in_order_as_one(paper: Paper) -> None:
    run = RoundGraphs(5).capture(calls(3))
    assert not paper.launched
    run(5)
    assert [launched.parameters for launched in paper.launched] == [(0,), (1,), (2,)]
    assert paper.log == ["graph"]


def test_every_graph_is_one_of_its_own(paper: Paper) -> None:
    graphs = RoundGraphs(5)
    for count in (2, 3):
        graphs.capture(calls(count))(5)
    assert paper.log == ["graph", "graph"] and len(paper.launched) == 5


def test_nothing_is_kept_after_clearing(paper: Paper) -> None:
    graphs = RoundGraphs(5)
    for _ in range(2):
        graphs.capture(calls(1))
    graphs.clear()
    graphs.clear()
    assert paper.destroyed == 2
