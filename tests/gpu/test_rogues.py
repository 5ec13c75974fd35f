"""Every rogue comes to the end that it declares, and none wins anything."""

import pytest

from tests.gpu.judging import measure_job
from tests.gpu.rogues import MOST_GAIN, load_rogues, sure_gain
from workers.protocol import MEASURED_DEADLINE_S, ConfirmJob, Outcome, Report, Stage

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(MEASURED_DEADLINE_S + 60)]


@pytest.mark.parametrize("name", load_rogues())
def test_a_rogue_gets_what_it_deserves(name, card, traces, device):
    rogue = load_rogues()[name]
    assert name not in traces.failures, traces.failures[name]
    traced = traces.reports[name]
    if traced.outcome is not Outcome.CORRECT:
        assert traced.outcome in rogue.outcomes, traced.reason
        assert traced.stage in rogue.stages, traced.reason
        return
    (variant,) = traces.variants(name)
    report = card.ask(measure_job(rogue, variant, traces, device))
    assert isinstance(report, Report), report
    assert report.outcome in rogue.outcomes, report.reason
    assert report.stage in rogue.stages or report.outcome is Outcome.CORRECT, report.reason
    assert sure_gain(report, variant.bundle) <= MOST_GAIN, "the cheat pays"


@pytest.mark.parametrize("name", ["careless_when_large"])
def test_what_is_careless_with_large_plans_is_refused_when_it_is_confirmed(name, card, traces, device):
    rogue = load_rogues()[name]
    (variant,) = traces.variants(name)
    judged = measure_job(rogue, variant, traces, device)
    common = judged.model_dump(exclude={"kind", "bundle", "source", "related", "seed"})
    job = ConfirmJob(**common, challenger=judged.bundle)
    report = card.ask(job)
    assert isinstance(report, Report), report
    assert (report.outcome, report.stage) == (Outcome.WRONG_RESULT, Stage.CHECK), report.reason
