"""Comparison of a certificate with results on this machine, step by step. Nothing runs in this module."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from math import isclose

from service.certificates.builder import speedup_of, speedup_shown, title_of, trust_of, words_of
from service.certificates.document import Certificate, LoadedCertificate
from service.evaluation.figure_labels import in_words, outdated, provenance, relative_to
from service.evaluation.speedups import times_us
from service.operators.shapes import all_shapes
from workers.protocol import (
    PROTOCOL_VERSION,
    Bundle,
    Device,
    Outcome,
    Report,
    Shape,
    ShapeResult,
    ShapeRole,
    TraceReport,
)

TIMES_AGREE = 0.05
"""Relative tolerance between two cards of a class for a candidate's time divided by its pacer's. On one card the paired
deviation is 1 % (evaluation protocol 3.3); memory clocks and bins of cards differ by some percent more."""
PREDICTIONS_AGREE = 1e-6
"""Relative tolerance of predicted times, which are computed from constant facts."""
BASELINES_AGREE = 0.1
"""Relative tolerance of the best baseline's time divided by the pacer's. Each of the two may differ by `TIMES_AGREE`,
and an autotuner may choose differently each time."""
NO_SEED = "the operator has no seed kernel: figures are relative to a draft, which cannot be repeated"
"""Reason why a pacer or a seed's times cannot be checked."""


class StepOutcome(StrEnum):
    """Outcome of a step."""

    REPEATED = "repeated"
    DIFFERS = "differs"
    NOT_TRIED = "could not be repeated here"


@dataclass(frozen=True)
class ComparedFigure:
    """One figure of the certificate and of this machine."""

    name: str
    then: str
    now: str


@dataclass(frozen=True)
class VerificationStep:
    """One step with its outcome, the reason and compared figures."""

    name: str
    found: StepOutcome
    reason: str = ""
    figures: tuple[ComparedFigure, ...] = ()


NEEDED = ("digest", "shapes", "rules", "correctness")
"""Steps that must be repeated for a certificate to count as verified."""


@dataclass
class Verification:
    """Steps of a verification so far, in order."""

    device: Device | None
    steps: list[VerificationStep] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """True if no step differs and every step in `NEEDED` was repeated."""
        repeated = {step.name for step in self.steps if step.found is StepOutcome.REPEATED}
        return repeated.issuperset(NEEDED) and all(step.found is not StepOutcome.DIFFERS for step in self.steps)

    @property
    def untried(self) -> tuple[str, ...]:
        """Names of the steps that could not be repeated here; their claims are unverified."""
        return tuple(step.name for step in self.steps if step.found is StepOutcome.NOT_TRIED)


def check_digests(read: LoadedCertificate) -> VerificationStep:
    """Compare the digests of the document and its parts with those that it states."""
    certificate = read.certificate
    named: list[tuple[str, str, str]] = [
        ("certificate", certificate.id, read.digest),
        ("operator", certificate.operator_digest, certificate.operator.digest),
        ("bundle", certificate.bundle_digest, _identity(certificate)),
        ("bundle's operator", certificate.bundle.operator, certificate.operator_digest),
        ("verdict's bundle", certificate.verdict.bundle, certificate.bundle_digest),
    ]
    figures = tuple(ComparedFigure(name, then[:12], now[:12]) for name, then, now in named)
    wrong = [name for name, then, now in named if then != now]
    if wrong:
        return VerificationStep(
            "digest", StepOutcome.DIFFERS, f"the document was changed: the digest of the {wrong[0]} differs", figures
        )
    return VerificationStep("digest", StepOutcome.REPEATED, "", figures)


def _identity(certificate: Certificate) -> str:
    try:
        return certificate.bundle.identity
    except ValueError:
        return "none: a kernel has no machine code"


def check_claims(certificate: Certificate) -> VerificationStep:
    """Check that a certificate's words, speedup and trust follow from its own plans and reports."""
    device, said = certificate.device.name, certificate.verdict
    trust, reasons = trust_of(said)
    follows = {
        "title": certificate.title == title_of(certificate.operator.name, device),
        "provenance": certificate.provenance == said.provenance == provenance(device),
        "figures": certificate.figures == in_words(device) and certificate.relative_to == relative_to(device),
        "device": said.device == certificate.device,
        "outcome": said.outcome is Outcome.CORRECT,
        "words": certificate.words == words_of(certificate.bundle, certificate.readings),
        "speedup": certificate.speedup == speedup_of(said, certificate.baseline_us, certificate.shapes)
        and _is_shown(certificate),
        "trust": (certificate.trust, certificate.trust_reasons) == (trust, reasons),
    }
    wrong = [name for name, holds in follows.items() if not holds]
    if wrong:
        return VerificationStep(
            "claims", StepOutcome.DIFFERS, f"do not follow from the plans and reports: {', '.join(wrong)}"
        )
    return VerificationStep(
        "claims", StepOutcome.REPEATED, "words, speedup and trust follow from the plans and reports"
    )


def check_shapes(certificate: Certificate) -> VerificationStep:
    """Check that it was judged at all benchmark and boundary shapes of the operator.

    A forger could leave out every shape that is small enough for the interpreter. Held-out shapes are random, so only
    their number is compared.
    """
    known, drawn = _by_role(certificate.shapes)
    expected, due = _by_role(all_shapes(certificate.operator, seed=0))
    figures = (
        ComparedFigure("of the spec and its borders", str(len(known)), str(len(expected))),
        ComparedFigure("held out", str(len(drawn)), str(len(due))),
    )
    if known == expected and len(drawn) == len(due):
        return VerificationStep("shapes", StepOutcome.REPEATED, "", figures)
    then, now = certificate.verdict.versions.get("kernelreef"), version("kernelreef")
    if then != now:
        return VerificationStep(
            "shapes", StepOutcome.NOT_TRIED, f"kernelreef {then} may use other shapes than {now}", figures
        )
    return VerificationStep(
        "shapes", StepOutcome.DIFFERS, "these are not the shapes that the operator is judged at", figures
    )


def _by_role(shapes: Sequence[Shape]) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Split shapes into those that follow from the operator, and held-out ones."""
    known = tuple(shape for shape in shapes if shape.role is not ShapeRole.HELD_OUT)
    return known, tuple(shape for shape in shapes if shape.role is ShapeRole.HELD_OUT)


def _is_shown(certificate: Certificate) -> bool:
    """Return True if a measured speedup agrees with the medians of its shapes' times and baselines."""
    if certificate.speedup is None or not certificate.device.measures:
        return True
    shown = speedup_shown(certificate.verdict, certificate.shapes)
    return shown is not None and isclose(certificate.speedup.mid, shown, rel_tol=TIMES_AGREE)


def side_by_side(
    name: str, then: Mapping[str, float], now: Mapping[str, float], unit: str, allowed: float
) -> VerificationStep:
    """Compare figures by shape with a relative tolerance."""
    figures = tuple(
        ComparedFigure(shape, f"{then.get(shape, 0.0):.4g} {unit}", f"{time:.4g} {unit}") for shape, time in now.items()
    )
    if then.keys() == now.keys() and all(isclose(then[shape], now[shape], rel_tol=allowed) for shape in then):
        return VerificationStep(name, StepOutcome.REPEATED, "", figures)
    return VerificationStep(name, StepOutcome.DIFFERS, f"by more than {100 * allowed:.2g} %", figures)


def excused(
    step: VerificationStep, certificate: Certificate, versions: Mapping[str, str], what: str = "results"
) -> VerificationStep:
    """Turn a difference in `what` into "not tried" if another protocol or tool version may explain it."""
    then = certificate.verdict.protocol_version
    others = other_versions(
        {"protocol": str(then), **certificate.verdict.versions}, {"protocol": str(PROTOCOL_VERSION), **versions}
    )
    if step.found is StepOutcome.DIFFERS and others:
        return VerificationStep(
            step.name, StepOutcome.NOT_TRIED, f"other versions may give other {what}: {others}", step.figures
        )
    return step


def correctness(certificate: Certificate, report: Report, *, on_its_inputs: bool) -> VerificationStep:
    """Compare the repeated judgement with the verdict, by the worst case of every check."""
    then = {check.name: check for check in certificate.verdict.checks}
    figures = tuple(
        ComparedFigure(check.name, _said(then[check.name].worst) if check.name in then else "none", _said(check.worst))
        for check in report.checks
    )
    step = verdict("correctness", report, figures)
    if step.found is not StepOutcome.REPEATED:
        return step
    on = "on the same inputs" if on_its_inputs else "on other inputs"
    if outdated(certificate.verdict.protocol_version):
        on += f", by protocol {PROTOCOL_VERSION} instead of {certificate.verdict.protocol_version}"
    return VerificationStep(step.name, step.found, f"{on}, by {report.device.name}", figures)


def verdict(name: str, report: Report, figures: tuple[ComparedFigure, ...] = ()) -> VerificationStep:
    """Check that it is correct here too; a kernel that the interpreter cannot run is no contradiction."""
    if report.outcome is Outcome.CORRECT:
        return VerificationStep(name, StepOutcome.REPEATED, "", figures)
    found = StepOutcome.NOT_TRIED if report.outcome is Outcome.NOT_INTERPRETABLE else StepOutcome.DIFFERS
    return VerificationStep(name, found, f"{report.outcome.value}: {report.reason}", figures)


def times(certificate: Certificate, report: Report) -> VerificationStep:
    """Compare times: predicted ones must be equal, measured ones similar relative to the pacer's."""
    if report.device != certificate.device:
        return VerificationStep("times", StepOutcome.NOT_TRIED, f"this machine has no {certificate.device.name}")
    if report.outcome is not Outcome.CORRECT:
        return VerificationStep("times", StepOutcome.NOT_TRIED, "a kernel that is not correct is not timed")
    measures = report.device.measures
    then = {shape.shape: _time(shape, measures) for shape in certificate.verdict.shapes}
    now = {shape.shape: _time(shape, measures) for shape in report.shapes}
    unit = "x the pacer" if measures else "us, predicted"
    step = side_by_side("times", then, now, unit, TIMES_AGREE if measures else PREDICTIONS_AGREE)
    return excused(step, certificate, report.versions, "times")


def _time(shape: ShapeResult, measures: bool) -> float:
    """Return a comparable time: divided by the pacer's in the same paired timing if measured; zero if unknown."""
    mid = shape.mid_us or 0.0
    return mid / shape.pacer_us if measures and shape.pacer_us else mid


def other_versions(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe the tools whose versions differ between two machines, among those that both report."""
    other = [
        name for name in ("protocol", "torch", "triton", "ptxas", "driver", "cuda") if name in then and name in now
    ]
    return ", ".join(f"{name} {now[name]} instead of {then[name]}" for name in other if then[name] != now[name])


def _said(worst: float | None) -> str:
    return "none" if worst is None else f"{worst:.6g}"


def paced(certificate: Certificate, seed: TraceReport | None) -> VerificationStep:
    """Check that a measured certificate's pacer is its reference seed, as traced here; None without a seed."""
    if seed is None:
        return VerificationStep("pacer", StepOutcome.NOT_TRIED, NO_SEED)
    then = pacer_of(certificate)
    now = pacers(seed)
    figures = (ComparedFigure("pacer", then[:12], next(iter(now), "none")[:12]),)
    if then in now:
        return VerificationStep("pacer", StepOutcome.REPEATED, "it is the operator's reference seed", figures)
    reason = "times are relative to a kernel that is not the operator's reference seed"
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
    """Compare predicted times of the reference seed's variants, which predicted speedups are relative to."""
    right = [report for report in seeds if report.outcome is Outcome.CORRECT]
    if not right:
        return VerificationStep("baselines", StepOutcome.NOT_TRIED, "no seed kernel of the operator is correct here")
    then = certificate.baseline_us
    steps = [side_by_side("baselines", then, times_us(each), "us, predicted", PREDICTIONS_AGREE) for each in right]
    step = next((step for step in steps if step.found is StepOutcome.REPEATED), steps[0])
    return excused(step, certificate, right[0].versions, "times")


def earlier_seeds(
    certificate: Certificate, seeds: Sequence[Sequence[Report]], versions: Mapping[str, str]
) -> VerificationStep:
    """Check that the seeds before the one that figures relate to are refused here too.

    Otherwise figures could be told over whichever seed is slowest. A refusal on a card need not repeat elsewhere.

    Args:
        certificate: The certificate.
        seeds: Reports on the variants of each earlier seed.
        versions: Versions of the tools that traced them.
    """
    right = {at: report for at, reports in enumerate(seeds) for report in reports if report.outcome is Outcome.CORRECT}
    if not right:
        return VerificationStep("earlier seeds", StepOutcome.REPEATED, "they are refused here too")
    at, report = next(iter(right.items()))
    reason = f"seed {at} is correct by {report.device.name}, so figures should relate to it"
    if report.device != certificate.device:
        return VerificationStep("earlier seeds", StepOutcome.NOT_TRIED, f"{reason}; it was refused on another device")
    return excused(VerificationStep("earlier seeds", StepOutcome.DIFFERS, reason), certificate, versions)


def _over_pacer(report: Report) -> dict[str, float]:
    """Return the best baseline's time divided by the pacer's, by shape, for shapes with both."""
    known = (shape for shape in report.shapes if shape.baselines_us and shape.pacer_us)
    return {shape.shape: min(shape.baselines_us.values()) / (shape.pacer_us or 1.0) for shape in known}
