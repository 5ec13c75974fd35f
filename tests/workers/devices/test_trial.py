"""Which content plans meet, and that writes to memory that no run has a place in are seen."""

from contextlib import suppress
from dataclasses import replace
from math import exp, inf

import pytest

from tests.service import records
from tests.workers.checks.cases import graph_of
from tests.workers.devices.desk import MIX, Desk, opened_desk, trial_at
from tests.workers.devices.raced import OPERATOR, SHAPE, raced, timing_of
from tests.workers.devices.thieves import Careless
from tests.workers.runner.plans import kernel
from workers.commands import SECRET_BYTES, ExaminedRuns, ExamineMore, ExamineRuns, OpenDoubt, PairSide, SetOperator
from workers.devices.ending import JudgementEnded
from workers.devices.trial import (
    LARGE_DRAWS,
    LARGE_PLAN_BYTES,
    POISONS,
    CheckDepth,
    CheckedRuns,
    benchmarks,
    draws_for,
    plan_bytes,
    room_for,
)
from workers.inputs import DRAWS
from workers.memory_layout import SMALL_ZONE_BYTES, ZONE_BYTES, slot_bytes
from workers.oracle.server import respond
from workers.protocol import Buffer, InputRef, Node, Outcome, Shape, ShapeRole, Stage


@pytest.fixture
def desk():
    with opened_desk() as processes:
        yield processes


@pytest.mark.parametrize("scrutiny", CheckDepth)
def test_small_plans_meet_every_draw_and_large_ones_those_that_find_most_unless_thoroughly_looked_at(scrutiny):
    assert draws_for(LARGE_PLAN_BYTES, scrutiny) == tuple(DRAWS)
    few = LARGE_DRAWS if scrutiny is not CheckDepth.THOROUGH else tuple(DRAWS)
    assert draws_for(LARGE_PLAN_BYTES + 1, scrutiny) == few
    assert set(LARGE_DRAWS) <= set(DRAWS)


def test_memory_of_its_own_spares_a_plan_no_draw(desk, monkeypatch):
    met = []
    trial = trial_at(desk)
    (plan,) = trial.bundles[PairSide.CANDIDATE].plans
    greedy = plan.model_copy(update={"buffers": (*plan.buffers, Buffer(id=3, bytes=2 * LARGE_PLAN_BYTES))})
    bundle = trial.bundles[PairSide.CANDIDATE].model_copy(update={"plans": (greedy,)})
    trial.bundles = {**trial.bundles, PairSide.CANDIDATE: bundle}
    monkeypatch.setattr(trial, "run", met.extend)
    trial.check()
    assert plan_bytes(greedy) > LARGE_PLAN_BYTES and [runs.draw for runs in met] == list(DRAWS)


def test_each_set_of_compiled_kernels_runs_twice_on_equal_content_at_its_cheapest_plan(desk, monkeypatch):
    met = []
    trial = trial_at(desk)
    bundle = trial.bundles[PairSide.CANDIDATE]
    (plan,) = bundle.plans
    other = kernel(num_warps=8)

    def at(count, of=None):
        steps = tuple(
            step.model_copy(update={"kernel": of.digest}) if of and step.op == "launch" else step for step in plan.steps
        )
        shape = Shape(dims={"N": count}, role=ShapeRole.RANDOM)
        buffers = tuple(each.model_copy(update={"bytes": 4 * count}) for each in plan.buffers)
        return plan.model_copy(update={"shape": shape, "steps": steps, "buffers": buffers})

    plans = (at(300), at(200), at(400, other), at(100, other), plan)
    trial.bundles = {**trial.bundles, PairSide.CANDIDATE: bundle.model_copy(update={"plans": plans})}
    trial._contract_bytes = {each.shape.key: 64 for each in plans}
    monkeypatch.setattr(trial, "run", met.extend)
    trial.check()
    own = min(range(len(plans)), key=lambda index: plan_bytes(plans[index]) if index not in (2, 3) else inf)
    assert {runs.plan for runs in met if runs.count == 2} == {own, 3, 4}
    assert all(runs.draw == "normal" for runs in met if runs.count == 2) and len(met) == len(plans) * len(DRAWS)


def test_only_benchmark_shapes_are_timed():
    bundle = records.bundle(1)
    found = dict(benchmarks(bundle))
    assert found and all(plan.shape.role is ShapeRole.BENCHMARK for plan in found.values())
    assert all(bundle.plans[index] is plan for index, plan in found.items())


@pytest.mark.parametrize("barriers", [0, 3])
def test_kernels_that_leave_barriers_open_are_run_alone(desk, barriers):
    trial = trial_at(desk, replace(MIX, open_barriers=barriers))
    with suppress(JudgementEnded):  # Kernels on paper compute nothing.
        trial.run([CheckedRuns(0, "normal", 2)])
    assert desk.exclusive == ({"execute"} if barriers else set())


def test_an_arena_has_room_for_two_runs_of_the_largest_plan():
    bundle = records.bundle(2)
    largest = max(slot_bytes(bundle, plan) for plan in bundle.plans)
    assert room_for(bundle, records.bundle(1)) - room_for(bundle, runs=1) == largest


@pytest.mark.parametrize("place", [0, 1023, 8192, 65535])
def test_a_write_to_memory_that_nobody_has_is_seen_when_it_is_taken(desk, place):
    trial = trial_at(desk)
    trial.take(1024, 8192, Stage.CHECK)
    desk.memory[place] = 7
    with pytest.raises(JudgementEnded) as caught:
        trial.take(0, 65536, Stage.TIME)
    assert caught.value.found["outcome"] is Outcome.OUT_OF_BOUNDS
    assert caught.value.found["stage"] is Stage.TIME


@pytest.mark.parametrize("place", [0, 255, 4096, 2**22 - 1])
def test_a_write_to_memory_that_nobody_had_is_seen_in_the_end(desk, place):
    trial = trial_at(desk)
    trial.take(256, 4096, Stage.CHECK)
    trial.take(256, 2048, Stage.TIME)
    trial.check_idle()
    desk.memory[place] = 7
    with pytest.raises(JudgementEnded, match="far from its buffers"):
        trial.check_idle()


def test_a_reference_that_raises_ends_the_judgement_with_its_reason(monkeypatch):
    monkeypatch.setattr(Desk, "look", lambda self, order: respond(self.examiner, order))
    graph = graph_of(OPERATOR, SHAPE)
    wrong = (Node(op="aten.view.default", args=(InputRef(input=0), (3,))), *graph.nodes[1:])
    with raced() as (trial, _):
        broken = SetOperator(operator=OPERATOR, graphs=(graph.model_copy(update={"nodes": wrong}),), fresh=True)
        assert trial.processes.look(broken).outcome is None
        with pytest.raises(JudgementEnded, match=r"the reference fails on drawn inputs: aten\.view\.def") as caught:
            timing_of(trial)
        assert caught.value.found["outcome"] is Outcome.TRACE_CRASHED
        trial.processes.look(broken.model_copy(update={"graphs": (graph,)}))
        assert timing_of(trial).candidate_us, "the oracle goes on"


def test_what_runs_leave_where_they_had_their_places_is_overwritten(desk):
    trial = trial_at(desk)
    trial.take(1024, 8192, Stage.CHECK)
    desk.memory[1024:8192] = 7
    trial.take(4096, 16384, Stage.TIME)
    assert set(desk.memory[1024:4096].tolist()) == {0xFF}
    desk.memory[4096:16384] = 8
    trial.take(0, 512, Stage.TIME)
    trial.check_idle()
    assert set(desk.memory[512:].tolist()) == {0xFF}


def test_runs_have_their_places_in_memory_that_is_taken(desk):
    trial = trial_at(desk)
    with pytest.raises(JudgementEnded, match="outside its buffers"):  # Red zones on paper have another pattern.
        trial.run([CheckedRuns(0, "normal", 2)])
    assert set(desk.memory.tolist()) > {0xFF}
    trial.check_idle()


def ordered(trial, monkeypatch, runs, times=1):
    """The cases that a trial asks its runner for, which runs none of them."""
    met = []
    monkeypatch.setattr(trial, "execute", lambda order, *_: met.extend(order.cases))
    for _ in range(times):
        with suppress(JudgementEnded):  # Nothing ran.
            trial.run(runs)
    return met


def test_of_two_runs_of_a_plan_one_is_laid_out_as_where_it_is_timed(desk, monkeypatch):
    met = ordered(trial_at(desk), monkeypatch, [CheckedRuns(0, "heavy", 1), CheckedRuns(0, "shifted", 1)], 32)
    widths = [min(size for _, size in case.slot.zones) for case in met]
    assert min(widths) >= SMALL_ZONE_BYTES
    wide = [width >= ZONE_BYTES for width in widths]
    assert all(one is not other for one, other in zip(wide[::2], wide[1::2], strict=True))
    assert set(wide[::2]) == {True, False}, "which of the two it is, is drawn"


def test_every_poison_is_met_before_one_comes_again_and_which_draw_has_which_is_drawn(desk, monkeypatch):
    met = ordered(trial_at(desk), monkeypatch, [CheckedRuns(0, draw, 1) for draw in LARGE_DRAWS], 32)
    found = [case.poison for case in met]
    assert all(sorted(found[start : start + 3]) == sorted(POISONS) for start in range(0, len(found), 3))
    assert set(found[::3]) == set(POISONS)


def test_two_runs_that_are_compared_have_red_zones_of_both_widths(desk, monkeypatch):
    met = ordered(trial_at(desk), monkeypatch, [CheckedRuns(0, "normal", 2)])
    narrow, wide = sorted(min(size for _, size in case.slot.zones) for case in met)
    assert narrow < ZONE_BYTES <= wide


def test_of_two_runs_that_are_compared_one_has_company_and_no_other_run_has(desk, monkeypatch):
    met = ordered(trial_at(desk), monkeypatch, [CheckedRuns(0, "normal", 2), CheckedRuns(0, "heavy", 1)], 32)
    accompanied = [[case.concurrent_load for case in met[start : start + 3]] for start in range(0, len(met), 3)]
    assert {tuple(each) for each in accompanied} == {(True, False, False), (False, True, False)}


def test_who_tells_timed_runs_by_the_distance_of_its_buffers_is_refused():
    with pytest.raises(JudgementEnded) as caught, raced(Careless):
        pass
    assert caught.value.found["stage"] is Stage.CHECK
    assert caught.value.found["outcome"] is Outcome.WRONG_RESULT


def test_were_red_zones_wide_wherever_it_is_checked_it_would_pass_and_be_faster(monkeypatch):
    monkeypatch.setattr("workers.devices.trial.ZONES", (ZONE_BYTES,))
    with raced(Careless) as (trial, machine):
        found = timing_of(trial)
    assert machine.amiss > 0 and exp(found.slowdown.mean) < 0.5


def test_content_is_met_again_by_who_shares_the_checker_unless_it_is_to_be_fresh(desk):
    shapes = ("M=64,N=128", "M=64,N=128", "M=1,N=1")
    one, other = ([trial_at(desk).seed(shape) for shape in shapes] for _ in range(2))
    fresh = [trial_at(desk, fresh=True).seed(shape) for shape in shapes]
    assert one == other and one[0] == one[1] != one[2]
    assert len({*one, *fresh}) == 2 + len(shapes)
    assert all(len(bytes.fromhex(seed)) == SECRET_BYTES for seed in (*one, *fresh))


def test_a_doubt_is_decided_once_on_fresh_content(desk, monkeypatch):
    trial, met, looks = trial_at(desk), [], []
    doubt = OpenDoubt(check="bias", plan=0, draw="heavy", draws=24)
    monkeypatch.setattr(trial, "execute", lambda order, *_: met.extend(order.cases))

    def look(order):
        if isinstance(order, ExamineRuns):
            looks.append((order.decides, len(order.cases)))
            return ExaminedRuns(doubts=() if order.decides else (doubt,))
        return ExaminedRuns()

    monkeypatch.setattr(desk, "look", look)
    trial.run([CheckedRuns(0, "heavy", 1)])
    trial.run([CheckedRuns(0, "heavy", 1)])
    deciding = met[1:-1]
    assert sum(count for decides, count in looks if decides == "bias") == 24 == len(deciding)
    assert {case.content.draw for case in deciding} == {"heavy"} and len({case.content.seed for case in met}) == 25
    assert met[0].content.seed == met[-1].content.seed not in {case.content.seed for case in deciding}


def test_a_decided_doubt_can_refuse(desk, monkeypatch):
    trial = trial_at(desk)
    doubt = OpenDoubt(check="bias", plan=0, draw="normal", draws=24)
    monkeypatch.setattr(trial, "execute", lambda *_: None)
    wrong = ExaminedRuns(outcome=Outcome.PRECISION, reason="too large")
    monkeypatch.setattr(
        desk, "look", lambda order: wrong if getattr(order, "decides", "") else ExaminedRuns(doubts=(doubt,))
    )
    with pytest.raises(JudgementEnded, match="too large"):
        trial.run([CheckedRuns(0, "normal", 1)])


def test_looks_go_on_until_every_run_was_looked_at_and_only_then_doubts_are_decided(desk, monkeypatch):
    trial, starts = trial_at(desk), []
    doubts = [OpenDoubt(check="bias", plan=0, draw="normal", draws=draws) for draws in (2, 3)]
    monkeypatch.setattr(trial, "execute", lambda *_: starts.append("execute"))

    def look(order):
        if not isinstance(order, ExamineRuns | ExamineMore):
            return ExaminedRuns()
        decides = isinstance(order, ExamineRuns) and order.decides
        start = order.start if isinstance(order, ExamineMore) else 0
        starts.append(f"decide {len(order.cases)}" if decides else start)
        if decides or start == 7:
            return ExaminedRuns()
        return ExaminedRuns(doubts=(doubts[start > 0],), next={0: 3, 3: 7}[start])

    monkeypatch.setattr(desk, "look", look)
    trial.run([CheckedRuns(0, "normal", 1)])
    assert starts == ["execute", 0, 3, 7, "execute", "decide 2", "execute", "decide 3"]


def test_the_first_wrong_run_ends_the_looks(desk, monkeypatch):
    trial, starts = trial_at(desk), []
    wrong = ExaminedRuns(outcome=Outcome.WRONG_RESULT, reason="all zeros")

    def look(order):
        starts.append(order.order)
        return wrong if isinstance(order, ExamineMore) else ExaminedRuns(next=3)

    monkeypatch.setattr(desk, "look", look)
    with pytest.raises(JudgementEnded, match="all zeros"):
        trial.inspect(ExamineRuns(plans={}, cases=(), zones="ab"), Stage.TIME)
    assert starts == ["examine", "examine_more"]
