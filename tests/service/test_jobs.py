"""Jobs carry what their device may see, under ids that only depend on what they are for."""

from dataclasses import replace

from service.jobs import measure_job, reference_job, target_of, trace_job, trace_key
from tests.service import records
from workers.protocol import Device


def test_only_model_devices_are_sent_the_source() -> None:
    search, candidate, bundle = records.search(), records.candidate(), records.bundle()
    sent = {
        name: measure_job(
            search, records.OPERATOR, candidate, variant=0, bundle=bundle, device=Device.parse(name)
        ).source
        for name in ("model:sm_90", "h200", "recorded:h200")
    }
    assert sent == {"model:sm_90": candidate.source, "h200": None, "recorded:h200": None}


def test_a_second_sending_has_the_same_id() -> None:
    search, candidate = records.search(), records.candidate()
    first, second = (trace_job(search, records.OPERATOR, candidate) for _ in range(2))
    assert first.id == second.id == "candidate-1:trace"
    assert reference_job(search, records.OPERATOR).candidate is None


def test_the_trace_key_changes_with_everything_that_changes_a_trace() -> None:
    shapes = records.search().shapes
    base = trace_key("d", "o", shapes, "sm_90")
    others = {
        trace_key("e", "o", shapes, "sm_90"),
        trace_key("d", "p", shapes, "sm_90"),
        trace_key("d", "o", shapes[1:], "sm_90"),
        trace_key("d", "o", shapes, "sm_80"),
    }
    assert len(others) == 4 and base not in others
    assert base == trace_key("d", "o", tuple(shapes), "sm_90")


def test_the_target_is_that_of_the_first_device() -> None:
    assert target_of(replace(records.search(), devices=("h200",))) == "sm_90"
