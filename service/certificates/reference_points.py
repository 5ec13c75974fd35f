"""What the figures of a certificate are relative to: its pacer, its baselines, the seed kernel. Nothing runs here."""

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
"""Share by which the best baseline's time over the pacer's may differ: each of the two as `TIMES_AGREE`, and what an
autotuner picks need not be the same twice."""
NO_SEED = "the operator brings no seed kernel: what figures are relative to was drafted, and is the certificate's word"
"""Why nothing is known of a pacer, or of a seed's times."""


def paced(certificate: Certificate, seed: TraceReport | None) -> VerificationStep:
    """Whether a certificate's pacer is the operator's first seed.

    Args:
        certificate: With figures that were measured.
        seed: What that seed was traced to here; None if the operator brings none.
    """
    if seed is None:
        return VerificationStep("pacer", StepOutcome.NOT_TRIED, NO_SEED)
    then = pacer_of(certificate)
    now = pacers(seed)
    figures = (ComparedFigure("pacer", then[:12], next(iter(now), "none")[:12]),)
    if then in now:
        return VerificationStep("pacer", StepOutcome.REPEATED, "it is the operator's first seed", figures)
    reason = "times are shares of a kernel's that is not the operator's first seed"
    return excused(VerificationStep("pacer", StepOutcome.DIFFERS, reason, figures), certificate, seed.versions)


def pacer_of(certificate: Certificate) -> str:
    """Identity of a certificate's pacer; of what it certifies where it has none, which paces itself then."""
    try:
        return (certificate.pacer or certificate.bundle).reduced().identity
    except ValueError:
        return "none: no plan of a benchmark shape, or no machine code"


def pacers(seed: TraceReport) -> dict[str, Bundle]:
    """What a seed's variants may pace with, by identity."""
    reduced = [variant.bundle.reduced() for variant in seed.variants if variant.bundle is not None]
    return {bundle.identity: bundle for bundle in reduced}


def related(certificate: Certificate, report: Report) -> VerificationStep:
    """Best baselines over the pacer, side by side: what a speedup that was measured is relative to."""
    if report.device != certificate.device:
        reason = f"there is no {certificate.device.name} here; the speedup rests on the certificate's word"
        return VerificationStep("baselines", StepOutcome.NOT_TRIED, reason)
    then, now = _over_pacer(certificate.verdict), _over_pacer(report)
    if not now:
        return VerificationStep(
            "baselines",
            StepOutcome.NOT_TRIED,
            "no baseline was timed here; the speedup rests on the certificate's word",
        )
    step = side_by_side("baselines", then, now, "x the pacer", BASELINES_AGREE)
    return excused(step, certificate, report.versions, "times")


def predicted(certificate: Certificate, seeds: Sequence[Report]) -> VerificationStep:
    """Times of the seed kernel side by side, which a speedup that was predicted is relative to.

    Args:
        certificate: With figures that were predicted.
        seeds: What became here of the variants of the operator's first seed.
    """
    right = [report for report in seeds if report.outcome is Outcome.CORRECT]
    if not right:
        return VerificationStep("baselines", StepOutcome.NOT_TRIED, "no seed kernel of the operator is correct here")
    then = certificate.baseline_us
    steps = [side_by_side("baselines", then, times_us(each), "us, predicted", PREDICTIONS_AGREE) for each in right]
    step = next((step for step in steps if step.found is StepOutcome.REPEATED), steps[0])
    return excused(step, certificate, right[0].versions, "times")


def _over_pacer(report: Report) -> dict[str, float]:
    """The best baseline's time over the pacer's, by shape; only where both are known."""
    known = (shape for shape in report.shapes if shape.baselines_us and shape.pacer_us)
    return {shape.shape: min(shape.baselines_us.values()) / (shape.pacer_us or 1.0) for shape in known}
