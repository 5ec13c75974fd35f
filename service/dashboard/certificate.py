"""The page of a certificate: the evidence for a verdict."""

from dataclasses import dataclass

from service.certificates.document import Certificate
from service.dashboard.formatting import brief
from service.dashboard.rendering import HtmlPage
from workers.protocol import Report, Samples


@dataclass(frozen=True)
class PairedSamples:
    """Raw samples of one paired timing, microseconds per call; `beside` names the other side of the pair."""

    shape: str
    beside: str
    candidate_us: str
    other_us: str
    clocks_mhz: str


@dataclass(frozen=True)
class CertifiedPlan:
    """A launch plan in words."""

    shape: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class CertificatePage(HtmlPage):
    """A certificate, its parts in the order in which a sceptical reader checks them."""

    template = "certificate.html"
    section = "/"

    certificate: Certificate
    kernels: tuple[tuple[str, str], ...]
    plans: tuple[CertifiedPlan, ...]
    races: tuple[PairedSamples, ...]

    @classmethod
    def of(cls, certificate: Certificate) -> "CertificatePage":
        """Make the page of a certificate."""
        return cls(
            certificate=certificate,
            kernels=tuple(certificate.bundle.cubins.items()),
            plans=tuple(CertifiedPlan(shape, lines[1:]) for shape, lines in certificate.words.items()),
            races=races_of(certificate.verdict),
        )

    @property
    def title(self) -> str:
        """Operator and candidate of the certificate."""
        return f"Certificate of {self.certificate.operator.name} candidate {brief(self.certificate.origin.candidate)}"

    @property
    def address(self) -> str:
        """Address of the certificate as a file."""
        origin = self.certificate.origin
        where = f"variant={origin.variant}&device={self.certificate.device.name}"
        return f"/candidates/{origin.candidate}/certificate.json?{where}"


def races_of(report: Report) -> tuple[PairedSamples, ...]:
    """Collect the raw samples of every paired timing in a report."""
    raced = []
    for shape in report.shapes:
        for beside, samples in (("pacer", shape.samples), ("incumbent", shape.rival_samples)):
            if samples is not None:
                raced.append(_raced(shape.shape, beside, samples))
    return tuple(raced)


def _raced(shape: str, beside: str, samples: Samples) -> PairedSamples:
    figures = (samples.candidate_us, samples.other_us, samples.clocks_mhz)
    mine, its, clocks = (", ".join(f"{figure:g}" for figure in each) for each in figures)
    return PairedSamples(shape, beside, mine, its, clocks)
