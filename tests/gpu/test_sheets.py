"""A card's sheet: its driver tells all peaks, no program exceeds them, and honest kernels stay above their floors."""

import json
import subprocess
import sys
from math import isfinite

import pytest

from tests.gpu.honest import honest_kernels
from tests.gpu.judging import cards, measure_job
from workers.floors import floor_us
from workers.protocol import MEASURED_DEADLINE_S, Outcome, Report
from workers.targets import TARGETS, Target

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(MEASURED_DEADLINE_S + 60)]
LEAST_SHARE = 0.6
"""Share of each peak that a large copy or product reaches at least, so that a peak cannot be far too high either."""
BOUND = ["cross_entropy/seed", "gate_up_swiglu/tune/0", "matmul/hand/descriptors", "softmax/seed"]
"""Kernels that come close to a floor, by bytes or by products."""


@pytest.fixture(scope="module")
def figures(device) -> Target:
    """Theoretical peaks of the first card."""
    return TARGETS[device.target].of_card(cards()[0].sheet)


def test_the_driver_tells_every_figure(device, figures):
    sheet = cards()[0].sheet
    assert sheet.device_class == device.name and sheet.capability.replace(".", "") == device.target.removeprefix("sm_")
    assert sheet.clock_mhz and sheet.memory_clock_mhz and sheet.bus_bits
    assert all(map(isfinite, (figures.dram_bytes_per_s, figures.matrix_flops, figures.fp32_flops)))
    own = TARGETS[device.target]
    assert (sheet.shared_block_bytes, sheet.threads_sm) == (own.shared_block_bytes, own.threads_sm)
    assert (sheet.shared_sm_bytes, sheet.registers_sm) == (own.shared_sm_bytes, own.registers_sm)


def test_no_program_exceeds_a_peak(figures):
    command = (sys.executable, "-m", "benchmarks.rates", "--card", "0")
    reached = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    copied, read = reached["copied_bytes_per_s"], reached["read_bytes_per_s"]
    assert LEAST_SHARE * figures.dram_bytes_per_s < max(copied, read) < figures.dram_bytes_per_s
    assert LEAST_SHARE * figures.matrix_flops < reached["matrix_flops_per_s"] < figures.matrix_flops


@pytest.mark.parametrize("name", BOUND)
def test_an_honest_kernel_stays_above_its_floors(name, card, traces, device, figures):
    kernel = honest_kernels()[name]
    graphs = {graph.shape.key: graph for graph in traces.graphs[kernel.operator]}
    for variant in traces.variants(name):
        job = measure_job(kernel, variant, traces, device)
        report = card.ask(job)
        assert isinstance(report, Report) and report.outcome is Outcome.CORRECT, report
        assert report.card == cards()[0].sheet and report.controls
        for shape in report.shapes:
            floor = floor_us(job.operator, graphs[shape.shape], figures)
            assert shape.mid_us is not None and shape.mid_us > floor, (shape.shape, shape.mid_us, floor)
