"""Checks of a certificate's points of reference: pacer, baselines and seed kernel. Nothing runs in this module."""

from collections.abc import Sequence

from service.certificates.comparison import (
    PREDICTIONS_AGREE,
    ComparedFigure,
    StepOutcome,
    VerificationStep,
    excused,
    side_by_side,
)
from service.certificates.document import Certificate
from service.evaluation.promotion import times_us
from workers.protocol import Bundle, Outcome, Report, TraceReport

BASELINES_AGREE = 0.1
"""Relative tolerance of the best baseline's time divided by the pacer's. Each of the two may differ by `TIMES_AGREE`,
and an autotuner may choose differently each time."""
NO_SEED = "the operator has no seed kernel: figures are relative to a draft, which cannot be repeated"
"""Reason why a pacer or a seed's times cannot be checked."""


def paced(certificate: Certificate, seed: TraceReport | None) -> VerificationStep:
    """Check that a certificate's pacer is the operator's first seed.

    Args:
        certificate: Certificate with measured figures.
        seed: Trace of that seed on this machine; None if the operator has none.
    """
    if seed is None:
        return VerificationStep("pacer", StepOutcome.NOT_TRIED, NO_SEED)
    then = pacer_of(certificate)
    now = pacers(seed)
    figures = (ComparedFigure("pacer", then[:12], next(iter(now), "none")[:12]),)
    if then in now:
        return VerificationStep("pacer", StepOutcome.REPEATED, "it is the operator's first seed", figures)
    reason = "times are relative to a kernel that is not the operator's first seed"
    return excused(VerificationStep("pacer", StepOutcome.DIFFERS, reason, figures), certificate, seed.versions)


def pacer_of(certificate: Certificate) -> str:
    """Return the identity of a certificate's pacer, or of its own bundle, which is its own pacer without one."""
    try:
        return (certificate.pacer or certificate.bundle).reduced().identity
    except ValueError:
        return "none: no plan of a benchmark shape, or no machine code"


def pacers(seed: TraceReport) -> dict[str, Bundle]:
    """Return the bundles of a seed's variants, each of which may be the pacer, by identity."""
    reduced = [variant.bundle.reduced() for variant in seed.variants if variant.bundle is not None]
    return {bundle.identity: bundle for bundle in reduced}


def related(certificate: Certificate, report: Report) -> VerificationStep:
    """Compare the best baselines, relative to the pacer, which measured speedups depend on."""
    if report.device != certificate.device:
        reason = f"this machine has no {certificate.device.name}; the speedup is unverified"
        return VerificationStep("baselines", StepOutcome.NOT_TRIED, reason)
    then, now = _over_pacer(certificate.verdict), _over_pacer(report)
    if not now:
        return VerificationStep(
            "baselines",
            StepOutcome.NOT_TRIED,
            "no baseline was timed here; the speedup is unverified",
        )
    step = side_by_side("baselines", then, now, "x the pacer", BASELINES_AGREE)
    return excused(step, certificate, report.versions, "times")


def predicted(certificate: Certificate, seeds: Sequence[Report]) -> VerificationStep:
    """Compare the times of the seed kernel, which predicted speedups are relative to.

    Args:
        certificate: Certificate with predicted figures.
        seeds: Reports on the variants of the operator's first seed, from this machine.
    """
    right = [report for report in seeds if report.outcome is Outcome.CORRECT]
    if not right:
        return VerificationStep("baselines", StepOutcome.NOT_TRIED, "no seed kernel of the operator is correct here")
    then = certificate.baseline_us
    steps = [side_by_side("baselines", then, times_us(each), "us, predicted", PREDICTIONS_AGREE) for each in right]
    step = next((step for step in steps if step.found is StepOutcome.REPEATED), steps[0])
    return excused(step, certificate, right[0].versions, "times")


def _over_pacer(report: Report) -> dict[str, float]:
    """Return the best baseline's time divided by the pacer's, by shape, for shapes with both."""
    known = (shape for shape in report.shapes if shape.baselines_us and shape.pacer_us)
    return {shape.shape: min(shape.baselines_us.values()) / (shape.pacer_us or 1.0) for shape in known}
