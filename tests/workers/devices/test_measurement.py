from math import sqrt
from types import SimpleNamespace

import pytest

from tests.workers.checks import cases
from tests.workers.devices import desk, raced
from tests.workers.devices.kernels import PLAIN, job_for
from tests.workers.devices.test_controls import Spoiled
from workers.baselines import Baseline, BaselineFigure
from workers.commands import PairSide, TimeRound
from workers.devices.assembling import Assemblers
from workers.devices.card_processes import CardFailed
from workers.devices.ending import JudgementEnded
from workers.devices.measurement import Measurement, MeasurementContext, _samples, inverse, speedups_of
from workers.devices.paired_timing import REST_S, PairedTimes
from workers.protocol import Outcome, Stage
from workers.targets import TARGETS
from workers.timing import Estimate


def timing(shape, slowdown):
    jitter = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 1.0)
    return PairedTimes(shape, tuple(20.0 * slowdown * j for j in jitter), (20.0,) * len(jitter), 5)


def baseline(shape, over_pacer, half_width=0.0):
    figure = BaselineFigure(
        time_us=20.0 * over_pacer, time_half_width=0.01, over_pacer=over_pacer, half_width=half_width
    )
    slow = BaselineFigure(time_us=200.0, time_half_width=0.01, over_pacer=10.0, half_width=0.0)
    return Baseline(
        shape=shape, pacer_us=20.0, pacer_half_width=0.01, figures={"eager": slow, "compile": figure}, pairs=40
    )


def test_speedup_is_the_best_baseline_over_the_candidate():
    found = speedups_of([timing("N=8", 0.5)], {"N=8": baseline("N=8", 0.8)}, [1.0])
    assert found["speedup"].mid == pytest.approx(1.6, rel=0.01)
    assert found["speedup"].low < found["speedup"].mid < found["speedup"].high
    assert found["over_pacer"].mid == pytest.approx(2.0, rel=0.01) and found["pacer_speedup"].mid == pytest.approx(0.8)


def test_shapes_count_by_weight():
    timings = [timing("N=8", 0.5), timing("N=9", 1.0)]
    known = {"N=8": baseline("N=8", 1.0), "N=9": baseline("N=9", 2.0)}
    found = speedups_of(timings, known, [3.0, 1.0])
    assert found["over_pacer"].mid == pytest.approx(2**0.75, rel=0.01)
    assert found["pacer_speedup"].mid == pytest.approx(2**0.25) and found["speedup"].mid == pytest.approx(2, rel=0.01)


def test_an_uncertain_baseline_widens_the_interval():
    sure, unsure = (
        speedups_of([timing("N=8", 0.5)], {"N=8": baseline("N=8", 1.0, w)}, [1.0])["speedup"] for w in (0.0, 0.1)
    )
    assert unsure.high - unsure.low > 2 * (sure.high - sure.low)


@pytest.mark.parametrize("known", [{}, {"N=8": baseline("N=8", 1.0).model_copy(update={"figures": {}})}])
def test_without_a_baseline_there_is_the_speedup_over_the_pacer_alone(known):
    found = speedups_of([timing("N=8", 0.5)], known, [1.0])
    assert found["over_pacer"].mid == pytest.approx(2.0, rel=0.01)
    assert found["pacer_speedup"] is found["speedup"] is None


def test_what_is_slower_one_way_is_faster_the_other():
    assert inverse(Estimate(0.5, sqrt(2), 7)) == Estimate(-0.5, sqrt(2), 7)


def test_raw_samples_are_kept_pair_by_pair():
    timed = PairedTimes("N=8", (1.23456789, 2.0), (3.0, 4.0), 5, (1980.04, 1965.0), (1950.0, 1935.0))
    samples = _samples(timed)
    assert samples.clocks_mhz == (1980.0, 1965.0, 1950.0, 1935.0)
    assert (samples.candidate_us, samples.other_us, samples.calls) == ((1.2346, 2.0), (3.0, 4.0), 5)


class Begun(Exception):
    """The baselines were asked for."""


def test_baselines_begin_before_answers_are_computed_that_the_oracle_would_drop_for_them():
    """The controls need the answers of the timings behind them; the processes of this card can answer nothing."""

    def begin(*asked):
        assert asked[-1] is False, "nothing waits for them"
        raise Begun

    job, assemblers = job_for(PLAIN), Assemblers()
    processes = SimpleNamespace(provide=lambda needed_bytes: None)
    setting = MeasurementContext(processes, assemblers, TARGETS["sm_90"], begin)
    try:
        with pytest.raises(Begun):
            Measurement(job.operator, job.graphs, job.bundle, None, setting).run(4)
    finally:
        assemblers.close()


@pytest.mark.parametrize(("paces_itself", "why"), [(True, ""), (False, "a correct plan is refused")])
def test_controls_that_refuse_a_pacer_accuse_the_card_only_if_it_was_judged_before(paces_itself, why):
    with raced.raced(Spoiled) as (trial, machine):
        machine.since_check = True
        bundle, graph = trial.bundles[PairSide.PACER], cases.graph_of(raced.OPERATOR, raced.SHAPE)
        bundle = bundle.model_copy(update={"cubins": dict.fromkeys(bundle.kernels, "0" * 64)})
        setting = MeasurementContext(trial.processes, None, TARGETS["sm_90"], None)
        pacer = None if paces_itself else bundle
        measurement = Measurement(raced.OPERATOR, (graph,), bundle, pacer, setting)
        measurement._codes.update(raced.codes_of(bundle))
        if why:
            with pytest.raises(CardFailed, match=why):
                measurement._control(bundle)
            return
        refusal = measurement._control(bundle)
        assert refusal.found["outcome"] is Outcome.WRONG_RESULT and measurement.controls is None
        with pytest.raises(JudgementEnded) as caught:
            measurement._timings(bundle, 4, refusal)
    assert caught.value.found["stage"] is Stage.CHECK and measurement.checks


@pytest.mark.parametrize(("fresh", "rest_s"), [(True, REST_S), (False, 0.0)])
def test_the_card_rests_before_each_round_of_a_confirm(monkeypatch, fresh, rest_s):
    rests, replay = [], desk.Desk.replay

    def watched(self, order, *given, **options):
        rests.extend([order.rest_s] if isinstance(order, TimeRound) else [])
        return replay(self, order, *given, **options)

    monkeypatch.setattr(desk.Desk, "replay", watched)
    with raced.raced() as (trial, _):
        bundle, graph = trial.bundles[PairSide.CANDIDATE], cases.graph_of(raced.OPERATOR, raced.SHAPE)
        setting = MeasurementContext(trial.processes, None, TARGETS["sm_90"], None)
        measurement = Measurement(raced.OPERATOR, (graph,), bundle, None, setting, fresh=fresh)
        measurement._time(trial, "pacer", 0, bundle.plans[0], pairs=4, head_to_head=False)
    assert len(rests) > 1 and set(rests) == {rest_s}
