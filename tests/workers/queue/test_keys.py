"""The keys are those that operators and credentials are told about."""

import pytest

from tests.workers.queue.samples import DEVICE, confirm_job, measure_job, trace_job
from workers.protocol import Device
from workers.queue import JobQueue, is_host, places_of, queues_of
from workers.queue.keys import in_turn, reports_key, worker_key, worker_of


def test_a_trace_job_waits_for_its_target_and_the_others_for_their_device() -> None:
    assert JobQueue.of(trace_job("1", target="gfx942")).name == "gfx942:trace"
    assert JobQueue.of(measure_job("1", device="h200")).name == "h200:measure"
    assert JobQueue.of(confirm_job("1", device="recorded:h200")).name == "recorded:h200:confirm"
    asked = trace_job("1").model_copy(update={"device": Device.parse("recorded:h200")})
    assert JobQueue.of(asked).name == "recorded:h200:trace"


def test_streams_are_named_as_documented() -> None:
    queue = JobQueue(DEVICE, "measure")
    assert queue.jobs("search-1") == "reef:jobs:model:sm_90:measure:search-1"
    assert (reports_key("w"), worker_key("w")) == ("reef:reports:w", "reef:worker:w")


@pytest.mark.parametrize(
    "queue", [JobQueue("sm_90", "trace"), JobQueue("model:sm_90", "measure"), JobQueue("h200", "confirm")]
)
def test_a_lane_is_read_back_from_its_name(queue: JobQueue) -> None:
    assert JobQueue.named(queue.name) == queue


def test_a_worker_is_read_back_from_its_reports() -> None:
    assert worker_of(reports_key("host-1")) == "host-1"


def test_what_decides_is_for_trusted_workers_only() -> None:
    reference = trace_job("job-1").model_copy(update={"source": None, "candidate": None})
    ordinary = [trace_job("job-1"), measure_job("job-1")]
    assert [JobQueue.of(job).reserved for job in (reference, confirm_job("job-1"), *ordinary)] == [
        True,
        True,
        False,
        False,
    ]
    assert [JobQueue.of(job, reserved=True).name for job in (*ordinary, confirm_job("job-1"))] == [
        "sm_90:reserved-trace",
        f"{DEVICE}:reserved-measure",
        f"{DEVICE}:confirm",
    ]


def test_a_trusted_workers_lanes_come_with_what_others_wait_for_first() -> None:
    names = [queue.name for queue in queues_of("sm_90", "h200")]
    assert names == [
        "h200:confirm",
        "h200:reserved-measure",
        "h200:measure",
        "sm_90:reserved-trace",
        "sm_90:trace",
        "h200:final",
        "sm_90:final-trace",
    ]
    assert queues_of(None, None) == ()


def test_only_ids_that_were_given_at_joining_are_hosts() -> None:
    assert is_host("0190a000-0000-7000-8000-000000000000")
    for other in (
        "w",
        "rig-17-a1b2c3",
        "0190a000-0000-4000-8000-000000000000",
        "0190a000-0000-7000-8000-000000000000 ",
    ):
        assert not is_host(other)


def test_finalists_have_lanes_of_their_own_for_trusted_workers() -> None:
    traced = trace_job("job-1").model_copy(update={"references": True})
    queues = [JobQueue.of(traced), JobQueue.of(traced, reserved=True)]
    assert {queue.name for queue in queues} == {"sm_90:final-trace"} and all(queue.reserved for queue in queues)
    assert JobQueue("h200", "final").reserved


def test_a_job_that_asks_for_a_compiler_has_a_place_of_its_own_where_that_matters() -> None:
    asked = {"compiler": "3.9"}
    assert JobQueue.of(trace_job("1").model_copy(update=asked)).name == "sm_90/triton-3.9:trace"
    assert JobQueue.of(measure_job("1").model_copy(update=asked)).name == f"{DEVICE}/triton-3.9:measure"
    assert JobQueue.of(confirm_job("1").model_copy(update=asked)).name == f"{DEVICE}/triton-3.9:confirm"
    card = measure_job("1", device="h200").model_copy(update=asked)
    assert JobQueue.of(card).name == "h200:measure", "a card's host assembles with the ptxas that the plan names"
    recorded = trace_job("1").model_copy(update={**asked, "device": Device.parse("recorded:h200")})
    assert JobQueue.of(recorded).name == "recorded:h200:trace"


def test_a_worker_serves_its_compilers_place_beside_each_common_one() -> None:
    assert places_of("sm_90", "model:sm_90", "3.9") == (
        "sm_90",
        "sm_90/triton-3.9",
        "model:sm_90",
        "model:sm_90/triton-3.9",
    )
    assert places_of("sm_90", "h200", "3.9") == ("sm_90", "sm_90/triton-3.9", "h200")
    assert places_of("sm_90", None) == ("sm_90",)
    names = [queue.name for queue in queues_of("sm_90", None, "3.9")]
    assert names[:4:2] == ["sm_90:reserved-trace", "sm_90:trace"]
    assert names[1:4:2] == ["sm_90/triton-3.9:reserved-trace", "sm_90/triton-3.9:trace"]


def test_kinds_keep_their_order_and_places_take_turns() -> None:
    queues = queues_of("sm_90", "model:sm_90", "3.9")
    orders = [in_turn(queues) for _ in range(50)]
    assert {tuple(queue.kind for queue in order) for order in orders} == {tuple(queue.kind for queue in queues)}
    assert {order[0].place for order in orders} == {"model:sm_90", "model:sm_90/triton-3.9"}
