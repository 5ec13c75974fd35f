"""Honest kernels are accepted, all their variants, on all shapes."""

import pytest

from tests.gpu.honest import honest_kernels
from tests.gpu.judging import measure_job
from workers.protocol import MEASURED_DEADLINE_S, Outcome, Report

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(MEASURED_DEADLINE_S + 60)]


@pytest.mark.parametrize("name", honest_kernels())
def test_an_honest_kernel_is_accepted(name, card, traces, device):
    kernel = honest_kernels()[name]
    assert name not in traces.failures, traces.failures[name]
    assert traces.reports[name].outcome is Outcome.CORRECT, traces.reports[name].reason
    for variant in traces.variants(name):
        report = card.ask(measure_job(kernel, variant, traces, device))
        assert isinstance(report, Report), report
        assert report.outcome is Outcome.CORRECT, report.reason
        assert [check.verdict for check in report.checks if check.verdict == "failed"] == []
        for shape in report.shapes:
            assert 0 < shape.low_us <= shape.mid_us <= shape.high_us
