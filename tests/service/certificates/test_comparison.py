"""Steps of a verification, one by one."""

from importlib.metadata import version

import pytest

from service.certificates.comparison import (
    StepOutcome,
    Verification,
    VerificationStep,
    check_claims,
    check_digests,
    check_shapes,
    correctness,
    other_versions,
    paced,
    pacer_of,
    pacers,
    predicted,
    related,
    times,
)
from service.certificates.document import Certificate, LoadedCertificate, sealed
from tests.service import records
from tests.service.certificates.evidence import TIMES, certificate, measured, verdict
from workers.protocol import Bundle, Device, Outcome, Ratio, Report, TracedVariant, TraceReport, Trust

MODEL = Device.parse("model:sm_90")


def read(written: Certificate) -> LoadedCertificate:
    return LoadedCertificate(certificate=written, digest=sealed(written).id)


def test_a_document_is_what_its_digests_say() -> None:
    step = check_digests(read(certificate()))
    assert step.found is StepOutcome.REPEATED and all(each.then == each.now for each in step.figures)


@pytest.mark.parametrize("changes", [{"title": "MEASURED"}, {"operator_digest": "0" * 64}, {"bundle_digest": "0" * 64}])
def test_a_changed_document_is_found_out(changes: dict[str, object]) -> None:
    step = check_digests(read(certificate().model_copy(update=changes)))
    assert step.found is StepOutcome.DIFFERS and "document was changed" in step.reason


def test_a_document_that_is_sealed_again_still_needs_parts_that_fit() -> None:
    written = certificate()
    for changes in (
        {"operator_digest": "0" * 64},
        {"verdict": written.verdict.model_copy(update={"bundle": "b" * 64})},
    ):
        assert check_digests(read(sealed(written.model_copy(update=changes)))).found is StepOutcome.DIFFERS
    bare = written.model_copy(update={"bundle": written.bundle.model_copy(update={"cubins": {}})})
    assert "bundle" in check_digests(read(sealed(bare))).reason


def test_what_is_said_follows_from_what_is_carried() -> None:
    assert check_claims(certificate()).found is check_claims(certificate(measured())).found is StepOutcome.REPEATED


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"title": "double on h200: MEASURED figures"}, "title"),
        ({"figures": "MEASURED on h200"}, "figures"),
        ({"provenance": "measured"}, "provenance"),
        ({"speedup": Ratio(low=9.0, mid=9.0, high=9.0)}, "speedup"),
        ({"trust": Trust.A, "trust_reasons": ()}, "trust"),
        ({"words": {}}, "words"),
        ({"device": Device.parse("h200")}, "device"),
    ],
)
def test_what_does_not_follow_is_named(changes: dict[str, object], named: str) -> None:
    step = check_claims(certificate().model_copy(update=changes))
    assert step.found is StepOutcome.DIFFERS and named in step.reason
    wrong = verdict(outcome=Outcome.WRONG_RESULT)
    assert "outcome" in check_claims(certificate().model_copy(update={"verdict": wrong})).reason


@pytest.mark.parametrize("left", [slice(1, None), slice(0, 2), slice(1, 2)])
def test_shapes_that_are_left_out_are_missed(left: slice) -> None:
    assert check_shapes(certificate()).found is StepOutcome.REPEATED
    ours = certificate(verdict(versions={"kernelreef": version("kernelreef")}))
    assert check_shapes(ours.model_copy(update={"shapes": ours.shapes[left]})).found is StepOutcome.DIFFERS
    lighter = tuple(shape.model_copy(update={"weight": 1.0}) for shape in ours.shapes)
    assert check_shapes(ours.model_copy(update={"shapes": lighter})).found is StepOutcome.DIFFERS


def test_another_version_may_have_other_boundary_shapes() -> None:
    elsewhere = certificate(verdict(versions={"kernelreef": "0.0.1"})).model_copy(update={"shapes": ()})
    step = check_shapes(elsewhere)
    assert step.found is StepOutcome.NOT_TRIED and "kernelreef 0.0.1" in step.reason


def test_a_speedup_that_was_measured_follows_from_its_times_and_baselines() -> None:
    for said in (Ratio(low=2.9, mid=3.4, high=3.9), Ratio(low=25.0, mid=30.0, high=35.0)):
        step = check_claims(certificate(measured(speedup=said)))
        assert step.found is StepOutcome.DIFFERS and "speedup" in step.reason
    without = tuple(shape.model_copy(update={"baselines_us": {}}) for shape in measured().shapes)
    assert "speedup" in check_claims(certificate(measured(shapes=without))).reason
    assert check_claims(certificate(measured(shapes=without, speedup=None))).found is StepOutcome.REPEATED


def test_checks_are_shown_side_by_side() -> None:
    step = correctness(certificate(), verdict(), on_its_inputs=True)
    assert step.found is StepOutcome.REPEATED and "same inputs" in step.reason
    assert [(each.name, each.then, each.now) for each in step.figures] == [("error_ratio", "0.5", "0.5")]
    wrong = correctness(certificate(), verdict(outcome=Outcome.WRONG_RESULT, reason="row 3"), on_its_inputs=True)
    assert wrong.found is StepOutcome.DIFFERS and wrong.reason == "wrong_result: row 3"
    unknown = verdict(outcome=Outcome.NOT_INTERPRETABLE)
    assert correctness(certificate(), unknown, on_its_inputs=False).found is StepOutcome.NOT_TRIED


def stretched(share: float) -> object:
    return tuple(shape.model_copy(update={"mid_us": 10.0 * share}) for shape in measured().shapes)


@pytest.mark.parametrize(
    ("share", "found"), [(1.0, StepOutcome.REPEATED), (1.04, StepOutcome.REPEATED), (1.1, StepOutcome.DIFFERS)]
)
def test_measured_times_are_compared_as_shares_of_the_pacers(share: float, found: StepOutcome) -> None:
    step = times(certificate(measured()), measured(shapes=stretched(share)))
    assert step.found is found and step.figures[0].then == "0.5 x the pacer"


def test_predicted_times_have_to_be_equal() -> None:
    shapes = tuple(shape.model_copy(update={"mid_us": 10.001}) for shape in verdict().shapes)
    assert times(certificate(), verdict()).found is StepOutcome.REPEATED
    assert times(certificate(), verdict(shapes=shapes)).found is StepOutcome.DIFFERS
    versions = {"triton": "3.6.0"}
    other = times(certificate(verdict(versions={"triton": "3.7.1"})), verdict(shapes=shapes, versions=versions))
    assert other.found is StepOutcome.NOT_TRIED and "3.6.0 instead of 3.7.1" in other.reason


def test_times_of_another_device_say_nothing() -> None:
    assert times(certificate(measured()), verdict()).found is StepOutcome.NOT_TRIED
    assert times(certificate(), verdict(outcome=Outcome.WRONG_RESULT)).found is StepOutcome.NOT_TRIED


def test_only_versions_that_both_name_are_compared() -> None:
    assert other_versions({"torch": "1", "card": "a"}, {"torch": "1", "card": "b", "triton": "2"}) == ""
    assert other_versions({"protocol": "1"}, {"protocol": "2"}) == "protocol 2 instead of 1"
    assert other_versions({"torch": "1"}, {"torch": "2"}) == "torch 2 instead of 1"


@pytest.mark.parametrize("missing", ["digest", "shapes", "rules", "correctness"])
def test_it_holds_if_nothing_differs_and_what_matters_was_repeated(missing: str) -> None:
    steps = [VerificationStep(name, StepOutcome.REPEATED) for name in ("digest", "shapes", "rules", "correctness")]
    partly = Verification(MODEL, [*steps, VerificationStep("times", StepOutcome.NOT_TRIED)])
    assert partly.holds and partly.untried == ("times",)
    assert not Verification(MODEL, [*steps, VerificationStep("times", StepOutcome.DIFFERS)]).holds
    fewer = [VerificationStep(missing, StepOutcome.NOT_TRIED) if step.name == missing else step for step in steps]
    assert not Verification(MODEL, fewer).holds


SEED = records.bundle_from(records.SEED)


def traced(*bundles: Bundle, triton: str = "3.7.1") -> TraceReport:
    """What became of a seed with so many variants."""
    variants = tuple(
        TracedVariant(
            index=index, outcome="correct", bundle=each, readings=tuple(records.readings() for _ in each.plans)
        )
        for index, each in enumerate(bundles)
    )
    versions = {"triton": triton}
    return TraceReport(job="t", search="s", worker="w", versions=versions, outcome="correct", variants=variants)


def test_a_pacer_is_a_variant_of_the_first_seed() -> None:
    seed = traced(records.bundle(3), SEED)
    assert set(pacers(seed)) == {records.bundle(3).reduced().identity, SEED.reduced().identity}
    assert paced(certificate(measured()), seed).found is StepOutcome.REPEATED
    assert paced(certificate(measured(), pacer=records.bundle(5).reduced()), seed).found is StepOutcome.DIFFERS
    assert paced(certificate(measured()), None).found is StepOutcome.NOT_TRIED
    other = certificate(measured(versions={"triton": "3.6.0"}), pacer=records.bundle(5).reduced())
    assert "3.7.1 instead of 3.6.0" in paced(other, seed).reason


def test_what_has_no_pacer_paces_itself() -> None:
    written = certificate(measured(), pacer=None)
    assert pacer_of(written) == written.bundle.reduced().identity
    assert paced(written, traced(SEED)).found is StepOutcome.DIFFERS
    assert paced(written, traced(written.bundle)).found is StepOutcome.REPEATED
    bare = written.model_copy(update={"bundle": written.bundle.model_copy(update={"cubins": {}})})
    assert paced(bare, traced(SEED)).found is StepOutcome.DIFFERS


def timed(**baselines_us: float) -> Report:
    """Measured here, beside other baselines."""
    return measured(shapes=tuple(each.model_copy(update={"baselines_us": baselines_us}) for each in measured().shapes))


@pytest.mark.parametrize(
    ("here", "found"),
    [
        (timed(eager=30.0), StepOutcome.REPEATED),
        (timed(eager=28.0, compile=60.0), StepOutcome.REPEATED),
        (timed(eager=30.0, compile=21.0), StepOutcome.DIFFERS),
        (timed(eager=40.0), StepOutcome.DIFFERS),
        (timed(), StepOutcome.NOT_TRIED),
        (verdict(), StepOutcome.NOT_TRIED),
    ],
)
def test_the_best_baseline_is_as_far_from_the_pacer_here(here: Report, found: StepOutcome) -> None:
    assert related(certificate(measured()), here).found is found


def test_other_versions_have_other_baselines() -> None:
    here = timed(eager=21.0).model_copy(update={"versions": {"torch": "2.14"}})
    assert "torch 2.14 instead of 2.13" in related(certificate(measured(versions={"torch": "2.13"})), here).reason


def seeds(time_us: float, **changes: object) -> Report:
    """A verdict on the seed here."""
    return verdict(shapes=records.report(dict.fromkeys(TIMES, time_us)).shapes, **changes)


def test_predicted_times_of_the_seed_are_equal() -> None:
    assert predicted(certificate(), [seeds(12.5)]).found is StepOutcome.REPEATED
    assert predicted(certificate(), [seeds(9.0), seeds(12.5)]).found is StepOutcome.REPEATED, "of one of its variants"
    step = predicted(certificate(), [seeds(9.0)])
    assert step.found is StepOutcome.DIFFERS and step.figures[0].now == "9 us, predicted"
    assert predicted(certificate(), [seeds(12.5, outcome=Outcome.WRONG_RESULT)]).found is StepOutcome.NOT_TRIED
    assert predicted(certificate(), []).found is StepOutcome.NOT_TRIED
