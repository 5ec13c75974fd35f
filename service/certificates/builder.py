"""Builder of certificates from records: it looks nothing up, and equal records give equal documents."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archive.records import BundleRecord, CandidateRecord, EliteRecord, SearchRecord, VariantRecord
from service.certificates.document import Certificate, CertifiedCell, CertifiedFloor, CertifiedOrigin, sealed
from service.evaluation.figure_labels import in_words, provenance, relative_to
from service.evaluation.floors import memory_floors
from service.evaluation.speedups import gain, speedup, weights_of
from workers.protocol import Bundle, Graph, Operator, Outcome, Ratio, Readings, Report, Shape, Trust, label
from workers.protocol.words import describe

SHARED_SECRET = (
    "the secrets that inputs were drawn from: candidates judged near each other on a card share them, so that expected "
    "answers are worked out once, and who knew them could prepare for those to come"
)
"""Reason why a certificate does not reveal the inputs on a card."""


@dataclass(frozen=True)
class CertificateEvidence:
    """Records of one variant on one device.

    `verdict` is the report that counts; `reports` are all on the candidate, oldest first. `traced_alike` is true if a
    second trace gave the same bundle. `examination` is the report of its examination as a finalist.
    Devices that measure have a `pacer`; others have `baseline_us`, the times of the seed kernel by shape.
    """

    search: SearchRecord
    operator: Operator
    candidate: CandidateRecord
    variant: VariantRecord
    stored: BundleRecord
    verdict: Report
    reports: Sequence[Report]
    examination: Report | None
    traced_alike: bool
    pacer: Bundle | None
    baseline_us: Mapping[str, float]
    elite: EliteRecord | None


def certify(evidence: CertificateEvidence, *, with_source: bool = True) -> Certificate:
    """Build a certificate.

    Args:
        evidence: Records of the variant.
        with_source: True to include the candidate's source. Plans and assembly text are always included.
    """
    search, verdict, device = evidence.search, evidence.verdict, evidence.verdict.device
    bundle = Bundle.model_validate_json(evidence.stored.document)
    keys = [plan.shape.key for plan in bundle.plans]
    readings = {key: Readings.model_validate(each) for key, each in zip(keys, evidence.stored.readings, strict=True)}
    trust, reasons = trust_of(verdict)
    shapes = tuple(Shape.model_validate(shape) for shape in search.shapes)
    certificate = Certificate(
        title=title_of(evidence.operator.name, device.name, admitted=bool(search.admitted)),
        provenance=verdict.provenance,
        figures=in_words(device.name),
        relative_to=relative_to(device.name),
        device=device,
        operator=evidence.operator,
        operator_digest=evidence.operator.digest,
        shapes=shapes,
        graphs=graph_digests([Graph.model_validate(graph) for graph in search.graphs]),
        origin=_origin(evidence),
        configuration=dict(evidence.variant.configuration),
        # A source may have lone surrogates, which JSON cannot hold.
        source=evidence.candidate.source.encode(errors="replace").decode() if with_source else None,
        source_digest=evidence.candidate.digest,
        bundle=bundle,
        bundle_digest=bundle.identity,
        words=words_of(bundle, readings),
        readings=readings,
        traced_alike=evidence.traced_alike,
        pacer=evidence.pacer,
        baseline_us=dict(evidence.baseline_us),
        verdict=_unsigned(verdict),
        floors=_floors(verdict),
        earlier=_earlier(evidence),
        examination=_unsigned(evidence.examination) if evidence.examination else None,
        speedup=speedup_of(verdict, evidence.baseline_us, shapes),
        trust=trust,
        trust_reasons=reasons,
        place=_place(evidence.elite) if evidence.elite else None,
        admitted=search.admitted,
        reference_seed=search.reference_seed,
        refused_seeds=search.refused_seeds,
        left_out=_left_out(evidence, with_source),
    )
    return sealed(certificate)


def graph_digests(graphs: Sequence[Graph]) -> dict[str, str]:
    """Return the SHA-256 of each reference graph, by shape key."""
    return {graph.shape.key: hashlib.sha256(graph.model_dump_json().encode()).hexdigest() for graph in graphs}


def title_of(operator: str, device: str, *, admitted: bool = False) -> str:
    """Return the title of a certificate: it says if nothing was measured, and if the operator failed its test."""
    said = provenance(device)
    more = "; nothing was measured" if said == "predicted" else ""
    doubt = "; ADMITTED against mutation testing" if admitted else ""
    return f"{operator} on {device}: {said.upper()} figures{more}{doubt}"


def words_of(bundle: Bundle, readings: Mapping[str, Readings]) -> dict[str, tuple[str, ...]]:
    """Describe the steps of each plan in words, by shape key."""
    keys = [plan.shape.key for plan in bundle.plans]
    return {key: tuple(describe(bundle, at, readings.get(key))) for at, key in enumerate(keys)}


def speedup_of(verdict: Report, baseline_us: Mapping[str, float], shapes: Sequence[Shape]) -> Ratio | None:
    """Return the speedup that a verdict shows; None if there is none."""
    return gain(verdict, baseline_us, weights_of(shapes))


def speedup_shown(verdict: Report, shapes: Sequence[Shape]) -> float | None:
    """Compute the speedup from a measured verdict's times and baselines; None if a shape has no baseline."""
    best = {shape.shape: min(shape.baselines_us.values()) for shape in verdict.shapes if shape.baselines_us}
    found = speedup(verdict, best, weights_of(shapes))
    return None if found is None else found.mid


def trust_of(verdict: Report) -> tuple[Trust | None, tuple[str, ...]]:
    """Return the trust label, and the reasons why it is not a better one."""
    if verdict.grounds is None:
        return verdict.trust, ("its host did not say what it could guarantee",)
    return label(verdict.grounds)


def _origin(evidence: CertificateEvidence) -> CertifiedOrigin:
    return CertifiedOrigin(
        search=evidence.search.id,
        search_seed=evidence.search.seed,
        candidate=evidence.candidate.id,
        ordinal=evidence.candidate.ordinal,
        emitter=evidence.candidate.emitter,
        variant=evidence.variant.index,
    )


def _floors(verdict: Report) -> dict[str, CertifiedFloor]:
    found = memory_floors(verdict) if verdict.device.measures else {}
    return {shape: CertifiedFloor(peak_us=floor.peak_us, copy_us=floor.copy_us) for shape, floor in found.items()}


def _place(elite: EliteRecord) -> CertifiedCell:
    return CertifiedCell(
        cell=elite.cell,
        coordinates={name: dict(where) for name, where in elite.coordinates.items()},
        axes_version=elite.axes_version,
        objective=elite.objective,
        speedup=Ratio(low=elite.low, mid=elite.mid, high=elite.high),
        revision=elite.revision,
        placed_at=elite.placed_at,
    )


def _earlier(evidence: CertificateEvidence) -> tuple[Report, ...]:
    about = (evidence.variant.index, evidence.verdict.device)
    return tuple(
        _unsigned(report)
        for report in evidence.reports
        if (report.variant, report.device) == about
        and report.job != evidence.verdict.job
        and report.outcome is not Outcome.WORKER_LOST
    )


def _unsigned(report: Report) -> Report:
    """Remove the worker's name from a report; it may contain a machine's name."""
    return report.model_copy(update={"worker": ""})


def _left_out(evidence: CertificateEvidence, with_source: bool) -> tuple[str, ...]:
    left_out = [] if with_source else ["the source, by wish of whoever had this written"]
    measures, verdict = evidence.verdict.device.measures, evidence.verdict
    if measures and any(shape.samples is None for shape in verdict.shapes):
        left_out.append("raw samples: the worker's release did not send any")
    if verdict.seed is None:
        left_out.append(SHARED_SECRET if measures else "the secret of its inputs: the worker's release kept it")
    return tuple(left_out)
