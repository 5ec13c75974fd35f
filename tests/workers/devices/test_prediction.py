"""A kernel that is only checked is predicted as the device `model` predicts it when it judges it."""

import pytest

from tests.workers.devices.kernels import PLAIN, PRODUCT, changed, job_for, traced
from workers.devices.interpretation import InterpretationUnusable
from workers.devices.model import ModelDevice
from workers.devices.prediction import SAMPLED_BYTES, predict_benchmarks, sampled_plans
from workers.protocol import Device

LIMIT_S = 30.0


@pytest.mark.parametrize(("source", "operator"), [(PLAIN, "softmax"), (PRODUCT, "gram")])
def test_it_is_what_the_model_device_predicts(source: str, operator: str) -> None:
    job = job_for(source, operator)
    judged = ModelDevice(Device.parse("model:sm_90"), "tester").measure(job)
    assert judged.shapes, judged.reason
    found = predict_benchmarks(job, traced(source, operator).variants[0].readings, LIMIT_S)
    assert found == {shape.shape: shape.mid_us for shape in judged.shapes}


def test_a_wrong_kernel_is_predicted_too_and_nothing_tells_that_it_is_wrong() -> None:
    wrong = changed("tl.sum(e, axis=0)", "tl.max(e, axis=0)")
    found = predict_benchmarks(job_for(wrong), traced(wrong).variants[0].readings, LIMIT_S)
    assert list(found) == ["M=2048,N=1024"] and found["M=2048,N=1024"] > 0


def test_a_kernel_that_the_interpreter_cannot_run_has_a_reason() -> None:
    job = job_for(PLAIN).model_copy(update={"source": "import torch\n"})
    with pytest.raises(InterpretationUnusable, match=r"\w"):
        predict_benchmarks(job, traced(PLAIN).variants[0].readings, LIMIT_S)


def test_plans_that_are_too_large_to_sample_are_left_out() -> None:
    bundle = job_for(PLAIN).bundle
    assert sampled_plans(bundle) == list(bundle.benchmarks)
    large = tuple(
        plan.model_copy(update={"buffers": (plan.buffers[0].model_copy(update={"bytes": SAMPLED_BYTES + 1}),)})
        for plan in bundle.plans
    )
    assert sampled_plans(bundle.model_copy(update={"plans": large})) == []
