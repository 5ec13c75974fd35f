"""Jobs carry what their device may see, under ids that only depend on what they are for."""

from dataclasses import replace

import pytest

from archive.records import EMPTY_CELL
from service.evaluation.jobs import (
    AGAIN,
    EvaluationCase,
    confirm_id,
    confirm_job,
    draft_job,
    incumbent_of,
    is_reference_seed,
    measure_id,
    measure_job,
    reference_job,
    retrace_id,
    retrace_job,
    seed_trace_s,
    target_of,
    trace_job,
    trace_key,
    traced_at,
)
from tests.service import records
from workers.protocol import MEASURED_DEADLINE_S, Device

PACER = records.bundle(9).reduced()


def case(device: str = "h200") -> EvaluationCase:
    bundle = records.bundle()
    return EvaluationCase(
        records.search(), records.OPERATOR, records.candidate(), 2, bundle.identity, Device.parse(device)
    )


def test_only_model_devices_are_sent_the_source() -> None:
    sent = {
        name: measure_job(case(name), records.bundle(), None).source
        for name in ("model:sm_90", "h200", "recorded:h200")
    }
    assert sent == {"model:sm_90": records.candidate().source, "h200": None, "recorded:h200": None}


def test_a_recording_is_asked_for_what_others_compile() -> None:
    search = records.search(devices=("recorded:h200",))
    jobs = (
        reference_job(search, records.OPERATOR),
        draft_job(search, records.OPERATOR),
        trace_job(search, records.OPERATOR, records.candidate()),
    )
    for job in jobs:
        assert (job.target, job.device) == ("sm_90", Device.parse("recorded:h200"))
    assert (target_of(search), traced_at(search)) == ("sm_90", "recorded:h200")
    assert trace_job(records.search(), records.OPERATOR, records.candidate()).device is None
    assert traced_at(records.search()) == "sm_90"


def test_devices_that_measure_get_a_pacer_and_time_for_baselines() -> None:
    measured, predicted = measure_job(case(), records.bundle(), PACER), measure_job(case(records.DEVICE), PACER, None)
    assert (measured.pacer, measured.deadline_s) == (PACER, MEASURED_DEADLINE_S)
    assert predicted.pacer is None and predicted.deadline_s < MEASURED_DEADLINE_S


@pytest.mark.parametrize(
    ("emitter", "compiled_s", "limit_s"),
    [
        *[("tune", 0.5, 6.0), ("cross", 2.0, 15.0), ("rewrite", 9.0, 22.5), ("tune", None, 20.0), ("llm", 0.5, 20.0)],
        *[("tune", 20.0, 50.0), ("llm", 20.0, 50.0), ("seed", None, 60.0)],
    ],
)
def test_a_variation_is_traced_for_some_times_as_long_as_the_seeds(
    emitter: str, compiled_s: float | None, limit_s: float
) -> None:
    stages_s = {"jail": 3.0} if compiled_s is None else {"trace": compiled_s / 4, "compile": compiled_s, "jail": 3.0}
    seeds = [records.candidate(emitter="seed", stages_s=each) for each in ({}, stages_s)]
    made = records.candidate(emitter=emitter)
    assert trace_job(records.search(), records.OPERATOR, made, seeds).deadline_s == limit_s
    assert retrace_job(records.search(), records.OPERATOR, made).deadline_s == (120.0 if emitter == "seed" else 40.0)
    slow = records.candidate(emitter="llm", stages_s={"compile": 30.0})
    assert retrace_job(records.search(), records.OPERATOR, slow).deadline_s == 60.0


@pytest.mark.parametrize(("size", "limit_s"), [(1, 60.0), (2**18, 60.0), (2**18 + 1, 120.0), (926_163, 240.0)])
def test_a_long_seed_has_more_time(size: int, limit_s: float):
    assert seed_trace_s("#" * size) == limit_s


def test_a_confirm_is_named_after_whom_it_is_against() -> None:
    challenger, incumbent = records.bundle(1), records.bundle(2)
    against, alone = confirm_job(case(), challenger, incumbent, PACER), confirm_job(case(), challenger, None, None)
    assert against.id == f"candidate-1:2:h200:confirm:{incumbent.identity}"
    assert alone.id == "candidate-1:2:h200:confirm:"
    assert (against.challenger, against.incumbent, against.pacer) == (challenger, incumbent, PACER)
    assert against.deadline_s == MEASURED_DEADLINE_S


def test_a_report_says_by_its_job_whom_it_was_against() -> None:
    jobs = [confirm_id("c", 0, "h200", "b" * 64), confirm_id("c", 0, "h200", EMPTY_CELL)]
    assert [incumbent_of(records.report({}, kind="confirm", job=job)) for job in jobs] == ["b" * 64, EMPTY_CELL]
    assert incumbent_of(records.report({}, job=measure_id("c", 0, "h200"))) is None


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


def test_what_is_done_again_has_an_id_of_its_own() -> None:
    again = retrace_job(case().search, records.OPERATOR, case().candidate)
    assert again.id == retrace_id("candidate-1") != trace_job(case().search, records.OPERATOR, case().candidate).id
    job = measure_job(case(), records.bundle(1), None, AGAIN)
    assert job.id == case().job(AGAIN) == f"{case().job()}:{AGAIN}"
    report = records.report({}, job=job.id, device=job.device)
    assert incumbent_of(report) == AGAIN and incumbent_of(report.model_copy(update={"job": case().job()})) is None


@pytest.mark.parametrize(("emitter", "ordinal", "first"), [("seed", 0, True), ("seed", 1, False), ("tune", 0, False)])
def test_only_the_first_seed_is_what_others_are_held_against(emitter: str, ordinal: int, first: bool) -> None:
    candidate = replace(case().candidate, emitter=emitter, ordinal=ordinal)
    assert (
        is_reference_seed(case().search, candidate) is replace(case(), candidate=candidate).is_reference_seed is first
    )
