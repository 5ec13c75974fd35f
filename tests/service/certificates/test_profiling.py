"""Profiles of certified kernels by real executors, without a card: lines, work and floors beside the machine code."""

import asyncio
from dataclasses import replace

import pytest

from service.certificates.document import Certificate
from service.certificates.profiling import Profiler, plan_of, required_bytes
from service.errors import InvalidInput
from tests.service.certificates.evidence import certificate
from tests.workers.devices.kernels import PLAIN, SOFTMAX, job_of_lines
from workers.protocol import Device, ShapeResult

SHAPE = "M=2048,N=1024"
BYTES = 2 * 2 * 2048 * 1024
"""A softmax in bfloat16 reads and writes every element once."""


def softmax(**changes: object) -> Certificate:
    """A certificate of a real softmax kernel that was judged on an H200."""
    verdict = certificate().verdict.model_copy(
        update={"device": Device.parse("h200"), "shapes": (ShapeResult(shape=SHAPE, mid_us=4.0),), "card": None}
    )
    told = {
        "operator": SOFTMAX,
        "bundle": job_of_lines(PLAIN)[0],
        "source": PLAIN,
        "device": Device.parse("h200"),
        "configuration": {},
        "verdict": verdict,
    }
    return certificate().model_copy(update={**told, **changes})


def profiled(of: Certificate):
    return asyncio.run(Profiler(card=None).profile(of))


def test_a_kernel_is_profiled_without_its_card() -> None:
    found = profiled(softmax())
    (kernel,) = found.report.kernels
    assert (found.device.name, found.report.shape, found.report.time_us) == ("model:sm_90", SHAPE, None)
    assert "tl.exp(x)" in {found.source_line(hot.line) for hot in kernel.hottest if "MUFU.EX2" in hot.text}.pop()
    assert found.work.required_bytes == BYTES and found.work.flops
    assert found.floors.memory_us == pytest.approx(BYTES / 4.8e12 * 1e6)
    assert found.time_us == 4.0
    assert found.shares() == {
        "bandwidth": pytest.approx(BYTES / 4.8e12 / 4e-6),
        "operations": pytest.approx((found.floors.arithmetic_us or 0.0) / 4.0),
    }


def test_a_kernel_without_its_source_has_no_lines() -> None:
    found = profiled(softmax(source=None))
    assert {hot.line for hot in found.report.kernels[0].hottest} == {None}
    assert any("no lines beside" in note for note in found.report.notes)
    assert found.source_line(3) == ""


def test_a_source_that_became_another_kernel_lends_no_lines() -> None:
    found = profiled(softmax(source=PLAIN.replace("tl.exp(x)", "tl.exp2(x)")))
    assert {hot.line for hot in found.report.kernels[0].hottest} == {None}


def test_a_shape_is_one_of_the_plans() -> None:
    bundle = softmax().bundle
    assert plan_of(bundle, None) == plan_of(bundle, SHAPE) == bundle.plans[0]
    assert required_bytes(SOFTMAX, bundle.plans[0]) == BYTES
    with pytest.raises(InvalidInput, match=f"no shape M=1; there are {SHAPE}"):
        plan_of(bundle, "M=1")


def test_times_of_a_card_take_the_place_of_the_verdicts() -> None:
    found = profiled(softmax())
    measured = replace(found, report=found.report.model_copy(update={"time_us": 5.0, "copy_us": 4.5}))
    assert measured.time_us == 5.0
    assert measured.shares()["copy"] == pytest.approx(0.9)
