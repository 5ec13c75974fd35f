"""The process that measures, on the `model` device: which answer belongs to which job, and what is lost with it."""

import time

from benchmarks.measurer import MeasurerSlot
from tests.workers.devices.kernels import PLAIN, job_for
from workers.protocol import Device, ExecutorFailure, Outcome, Report, TracedVariant

MODEL = Device.parse("model:sm_90")
ANSWERS_S = 60.0
LATE_S = 2.0
"""Seconds in which two jobs are answered, but on a machine that is busy: then nothing is shown, and nothing fails."""


def jobs(*names):
    job = job_for(PLAIN)
    variant = TracedVariant(index=0, outcome=Outcome.CORRECT, bundle=job.bundle)
    return [(job.model_copy(update={"id": name}), variant) for name in names]


def collect(station):
    found, end = {}, time.monotonic() + ANSWERS_S
    while station.waiting and time.monotonic() < end:
        for job, variant, answer, seconds in station.collect(0.1):
            assert variant.bundle == job.bundle and (seconds is None) == isinstance(answer, ExecutorFailure)
            found[job.id] = answer, seconds
    return found


def test_every_job_gets_its_answer():
    with MeasurerSlot(MODEL) as station:
        for job, variant in jobs("one", "two", "three"):
            station.send(job, variant)
        found = collect(station)
    assert {name: answer.job for name, (answer, _) in found.items()} == {"one": "one", "two": "two", "three": "three"}
    assert all(isinstance(answer, Report) and answer.outcome is Outcome.CORRECT for answer, _ in found.values())


def test_seconds_are_the_benchs_own_however_late_answers_are_collected():
    with MeasurerSlot(MODEL) as station:
        for job, variant in jobs("one", "two"):
            station.send(job, variant)
        time.sleep(LATE_S)
        found = collect(station)
    assert all(seconds >= sum(answer.stages_s.values()) > 0 for answer, seconds in found.values())


def test_one_job_is_lost_with_the_process_and_the_others_are_done():
    with MeasurerSlot(MODEL) as station:
        for job, variant in jobs("one", "two", "three"):
            station.send(job, variant)
        first = station._measurer
        first._process.kill()
        found = collect(station)
        assert station._measurer is not first
    lost = [name for name, (answer, _) in found.items() if isinstance(answer, ExecutorFailure)]
    assert len(lost) == 1 and "it is gone" in found[lost[0]][0].error
    assert found.keys() == {"one", "two", "three"}
