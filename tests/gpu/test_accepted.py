"""Every honest kernel is accepted by a predicted device. All are written when this file is collected: 20 s."""

import pytest

from tests.gpu.benches import answers
from tests.gpu.honest import honest_kernels
from tests.gpu.judging import trace_job
from tests.gpu.predicted import assert_accepted, judge_on_model
from workers.protocol import Outcome, TraceReport

pytestmark = pytest.mark.slow


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", honest_kernels())
def test_every_honest_kernel_is_accepted(name: str) -> None:
    assert_accepted(name, judge_on_model(honest_kernels()[name]))


@pytest.mark.timeout(1800)
def test_every_honest_kernel_is_traced_and_most_differ_in_their_plans() -> None:
    jobs = {name: trace_job(name, kernel.operator, kernel.source) for name, kernel in honest_kernels().items()}
    found = dict(answers(jobs))
    assert all(isinstance(answer, TraceReport) for answer in found.values())
    refused = {name: answer.reason for name, answer in found.items() if answer.outcome is not Outcome.CORRECT}
    assert refused == {}
    firsts = {
        next(variant.bundle.identity for variant in answer.variants if variant.bundle) for answer in found.values()
    }
    assert len(firsts) >= 170
