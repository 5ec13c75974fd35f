"""What figures are relative to: a pacer that is the seed, baselines near those of this machine, the seed's times."""

import pytest

from service.certificates.comparison import StepOutcome
from service.certificates.reference_points import paced, pacer_of, pacers, predicted, related
from tests.service import records
from tests.service.certificates.evidence import TIMES, certificate, measured, verdict
from workers.protocol import Bundle, Outcome, Report, TracedVariant, TraceReport

SEED = records.bundle(1 + len(records.SEED))


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
