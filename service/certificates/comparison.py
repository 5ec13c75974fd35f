"""What a certificate says beside what was found here, step by step. Nothing runs in this module."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from math import isclose

from service.certificates.builder import speedup_of, speedup_shown, title_of, trust_of, words_of
from service.certificates.document import Certificate, LoadedCertificate
from service.evaluation.figure_labels import in_words, outdated, provenance, relative_to
from service.operators.shapes import all_shapes
from workers.protocol import PROTOCOL_VERSION, Device, Outcome, Report, Shape, ShapeResult, ShapeRole

TIMES_AGREE = 0.05
"""Share by which a candidate's time over its pacer's may differ between two cards of a class. Within one the paired
deviation is 1 % (evaluation protocol 3.3); memory clocks and bins of cards differ by some percent more."""
PREDICTIONS_AGREE = 1e-6
"""Share by which predicted times may differ: they are computed, from facts that do not vary."""


class StepOutcome(StrEnum):
    """What came of a step."""

    REPEATED = "repeated"
    DIFFERS = "differs"
    NOT_TRIED = "could not be repeated here"


@dataclass(frozen=True)
class ComparedFigure:
    """One figure side by side."""

    name: str
    then: str
    now: str


@dataclass(frozen=True)
class VerificationStep:
    """One step: what came of it, why, and figures."""

    name: str
    found: StepOutcome
    reason: str = ""
    figures: tuple[ComparedFigure, ...] = ()


NEEDED = ("digest", "shapes", "rules", "correctness")
"""Steps without which nothing counts as verified."""


@dataclass
class Verification:
    """All steps so far, in order."""

    device: Device | None
    steps: list[VerificationStep] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing differs, and what matters most was repeated."""
        repeated = {step.name for step in self.steps if step.found is StepOutcome.REPEATED}
        return repeated.issuperset(NEEDED) and all(step.found is not StepOutcome.DIFFERS for step in self.steps)

    @property
    def untried(self) -> tuple[str, ...]:
        """Names of the steps that could not be repeated here: of what they are about, nothing is known."""
        return tuple(step.name for step in self.steps if step.found is StepOutcome.NOT_TRIED)


def check_digests(read: LoadedCertificate) -> VerificationStep:
    """Whether the document is what its id says, and its parts are what their digests say."""
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
            "digest", StepOutcome.DIFFERS, f"somebody changed it: the digest of the {wrong[0]} is another", figures
        )
    return VerificationStep("digest", StepOutcome.REPEATED, "", figures)


def _identity(certificate: Certificate) -> str:
    try:
        return certificate.bundle.identity
    except ValueError:
        return "none: a kernel has no machine code"


def check_claims(certificate: Certificate) -> VerificationStep:
    """Whether what a certificate says in words and in sums follows from the plans and reports that it carries."""
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
            "claims", StepOutcome.DIFFERS, f"does not follow from the plans and reports: {', '.join(wrong)}"
        )
    return VerificationStep(
        "claims", StepOutcome.REPEATED, "words, speedup and trust follow from the plans and reports"
    )


def check_shapes(certificate: Certificate) -> VerificationStep:
    """Whether it was judged at the operator's own shapes, and at all of those where kernels break.

    A forger could leave out whatever the interpreter gets to see. Held-out shapes are drawn, and may be any.
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
            "shapes", StepOutcome.NOT_TRIED, f"kernelreef {then} may have had others than {now}", figures
        )
    return VerificationStep(
        "shapes", StepOutcome.DIFFERS, "these are not the shapes that the operator is judged at", figures
    )


def _by_role(shapes: Sequence[Shape]) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Shapes that follow from an operator, and those that are drawn."""
    known = tuple(shape for shape in shapes if shape.role is not ShapeRole.HELD_OUT)
    return known, tuple(shape for shape in shapes if shape.role is ShapeRole.HELD_OUT)


def _is_shown(certificate: Certificate) -> bool:
    """Whether a speedup that was measured is what its shapes say: medians of races and of baselines, each by itself."""
    if certificate.speedup is None or not certificate.device.measures:
        return True
    shown = speedup_shown(certificate.verdict, certificate.shapes)
    return shown is not None and isclose(certificate.speedup.mid, shown, rel_tol=TIMES_AGREE)


def side_by_side(
    name: str, then: Mapping[str, float], now: Mapping[str, float], unit: str, allowed: float
) -> VerificationStep:
    """Figures by shape, which may differ by a share of themselves."""
    figures = tuple(
        ComparedFigure(shape, f"{then.get(shape, 0.0):.4g} {unit}", f"{time:.4g} {unit}") for shape, time in now.items()
    )
    if then.keys() == now.keys() and all(isclose(then[shape], now[shape], rel_tol=allowed) for shape in then):
        return VerificationStep(name, StepOutcome.REPEATED, "", figures)
    return VerificationStep(name, StepOutcome.DIFFERS, f"by more than {allowed:.2g} of the time", figures)


def excused(
    step: VerificationStep, certificate: Certificate, versions: Mapping[str, str], what: str = "results"
) -> VerificationStep:
    """A difference that another protocol or other versions of the tools explain is none; `what` is what they give."""
    then = certificate.verdict.protocol_version
    others = other_versions(
        {"protocol": str(then), **certificate.verdict.versions}, {"protocol": str(PROTOCOL_VERSION), **versions}
    )
    if step.found is StepOutcome.DIFFERS and others:
        return VerificationStep(
            step.name, StepOutcome.NOT_TRIED, f"other versions give other {what}: {others}", step.figures
        )
    return step


def correctness(certificate: Certificate, report: Report, *, on_its_inputs: bool) -> VerificationStep:
    """What came of judging it again, with the worst case of every check side by side."""
    then = {check.name: check for check in certificate.verdict.checks}
    figures = tuple(
        ComparedFigure(check.name, _said(then[check.name].worst) if check.name in then else "none", _said(check.worst))
        for check in report.checks
    )
    step = verdict("correctness", report, figures)
    if step.found is not StepOutcome.REPEATED:
        return step
    on = "on the very inputs" if on_its_inputs else "on other inputs"
    if outdated(certificate.verdict.protocol_version):
        on += f", by protocol {PROTOCOL_VERSION} instead of {certificate.verdict.protocol_version}"
    return VerificationStep(step.name, step.found, f"{on}, by {report.device.name}", figures)


def verdict(name: str, report: Report, figures: tuple[ComparedFigure, ...] = ()) -> VerificationStep:
    """Whether it is correct here too; what the interpreter cannot run is no contradiction."""
    if report.outcome is Outcome.CORRECT:
        return VerificationStep(name, StepOutcome.REPEATED, "", figures)
    found = StepOutcome.NOT_TRIED if report.outcome is Outcome.NOT_INTERPRETABLE else StepOutcome.DIFFERS
    return VerificationStep(name, found, f"{report.outcome.value}: {report.reason}", figures)


def times(certificate: Certificate, report: Report) -> VerificationStep:
    """Times side by side: predicted ones have to be equal, measured ones near each other as shares of the pacer's."""
    if report.device != certificate.device:
        return VerificationStep("times", StepOutcome.NOT_TRIED, f"there is no {certificate.device.name} here")
    if report.outcome is not Outcome.CORRECT:
        return VerificationStep("times", StepOutcome.NOT_TRIED, "what is not correct is not timed")
    measures = report.device.measures
    then = {shape.shape: _time(shape, measures) for shape in certificate.verdict.shapes}
    now = {shape.shape: _time(shape, measures) for shape in report.shapes}
    unit = "x the pacer" if measures else "us, predicted"
    step = side_by_side("times", then, now, unit, TIMES_AGREE if measures else PREDICTIONS_AGREE)
    return excused(step, certificate, report.versions, "times")


def _time(shape: ShapeResult, measures: bool) -> float:
    """A time as it can be compared: over the pacer's in the same race where it was measured; zero if it is unknown."""
    mid = shape.mid_us or 0.0
    return mid / shape.pacer_us if measures and shape.pacer_us else mid


def other_versions(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """In which tools two machines differ, as far as both say."""
    other = [
        name for name in ("protocol", "torch", "triton", "ptxas", "driver", "cuda") if name in then and name in now
    ]
    return ", ".join(f"{name} {now[name]} instead of {then[name]}" for name in other if then[name] != now[name])


def _said(worst: float | None) -> str:
    return "none" if worst is None else f"{worst:.6g}"
