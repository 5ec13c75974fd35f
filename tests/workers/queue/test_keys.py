"""The keys are those that operators and credentials are told about."""

import pytest

from tests.workers.queue.samples import DEVICE, confirm_job, measure_job, trace_job
from workers.queue import Lane
from workers.queue.keys import reports_key, worker_key, worker_of


def test_a_trace_job_waits_for_its_target_and_the_others_for_their_device() -> None:
    assert Lane.of(trace_job("1", target="gfx942")).name == "gfx942:trace"
    assert Lane.of(measure_job("1", device="h200")).name == "h200:measure"
    assert Lane.of(confirm_job("1", device="recorded:h200")).name == "recorded:h200:confirm"


def test_streams_are_named_as_documented() -> None:
    lane = Lane(DEVICE, "measure")
    assert lane.jobs("search-1") == "reef:jobs:model:sm_90:measure:search-1"
    assert (reports_key("w"), worker_key("w")) == ("reef:reports:w", "reef:worker:w")


@pytest.mark.parametrize("lane", [Lane("sm_90", "trace"), Lane("model:sm_90", "measure"), Lane("h200", "confirm")])
def test_a_lane_is_read_back_from_its_name(lane: Lane) -> None:
    assert Lane.named(lane.name) == lane


def test_a_worker_is_read_back_from_its_reports() -> None:
    assert worker_of(reports_key("host-1")) == "host-1"
