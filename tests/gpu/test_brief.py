"""What a recording measures: the same verdicts and nearly the same times, from as few pairs as there can be."""

import pytest

from benchmarks.measurer import Measurer
from tests.gpu.honest import honest_kernels
from tests.gpu.judging import measure_job
from tests.gpu.rogues import load_rogues
from workers.devices.cuda import BRIEF_PAIRS
from workers.protocol import FIRST_CARD, MEASURED_DEADLINE_S, Outcome, Report

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(MEASURED_DEADLINE_S + 60)]
ANSWER_S = 120.0


@pytest.fixture(scope="module")
def measurer(device):
    found = Measurer(device, FIRST_CARD)
    yield found
    found.close()


def ask(measurer, kernel, traces, device):
    for variant in traces.variants(kernel.name):
        measurer.send(measure_job(kernel, variant, traces, device))
    said = [measurer.poll(ANSWER_S) for _ in range(measurer.waiting)]
    answers = [None if each is None else each[1] for each in said]
    assert answers and all(isinstance(answer, Report) for answer in answers), answers
    return answers


@pytest.mark.parametrize("name", ["rmsnorm/seed", "softmax/seed"])
def test_an_honest_kernel_is_timed_beside_its_pacer(name, measurer, traces, device):
    for report in ask(measurer, honest_kernels()[name], traces, device):
        assert report.outcome is Outcome.CORRECT and report.speedup is None
        for shape in report.shapes:
            assert shape.pairs == BRIEF_PAIRS
            assert 0.9 < shape.mid_us / shape.pacer_us < 1.1, "the seed races itself"


@pytest.mark.parametrize("name", sorted(load_rogues())[:3])
def test_a_rogue_is_caught_all_the_same(name, measurer, traces, device):
    rogue = load_rogues()[name]
    if not list(traces.variants(name)):
        pytest.skip("it is caught before anything is measured")
    assert {report.outcome for report in ask(measurer, rogue, traces, device)} <= rogue.outcomes
