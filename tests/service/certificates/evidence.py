"""What certificates are made of in tests: one predicted and one measured verdict."""

from dataclasses import replace

from archive.records import BundleRecord, VariantRecord
from service.certificates.builder import CertificateEvidence, certify
from service.certificates.document import Certificate
from tests.service import records
from tests.service.workbench import Answers
from workers.protocol import (
    CheckResult,
    Device,
    Outcome,
    Provenance,
    Ratio,
    Report,
    Samples,
    ShapeResult,
    TraceJob,
    TraceReport,
    Trust,
    TrustGrounds,
)

WORKER = "rack-7.example"
"""What no certificate may say."""
SEED = "5e" * 32
TIMES = {shape.key: 10.0 for shape in records.SHAPES[1:]}
SOURCE = "x" * 14 + "\n"
"""Traced by `Answers` to its own bundle, and to readings with one warp."""


def graphs() -> tuple[dict[str, object], ...]:
    """The reference graphs that `Answers` exports."""
    job = TraceJob(id="r", search="s", operator=records.OPERATOR, shapes=records.SHAPES, target="sm_90")
    exported = Answers().to(job)
    assert isinstance(exported, TraceReport)
    return tuple(graph.model_dump(mode="json") for graph in exported.graphs)


def verdict(**changes: object) -> Report:
    """A correct verdict on the model."""
    grounds = TrustGrounds(jail="user+mount+pid+net", replayed=True, measured=False)
    check = CheckResult(name="error_ratio", verdict="passed", worst=0.5)
    said = {"worker": WORKER, "grounds": grounds, "trust": Trust.B, "seed": SEED, "checks": (check,)}
    return records.report(TIMES, bundle=records.bundle_from(SOURCE).identity, **{**said, **changes})


def measured(**changes: object) -> Report:
    """A correct verdict on a card."""
    shapes = tuple(
        ShapeResult(
            shape=shape,
            pacer_us=20.0,
            baselines_us={"eager": 30.0},
            mid_us=10.0,
            low_us=9.9,
            high_us=10.1,
            pairs=2,
            samples=Samples(candidate_us=(10.0, 10.1), other_us=(20.0, 20.1), calls=5),
        )
        for shape in TIMES
    )
    said = {
        "device": Device.parse("h200"),
        "provenance": Provenance.MEASURED,
        "shapes": shapes,
        "seed": None,
        "speedup": Ratio(low=2.9, mid=3.0, high=3.1),
        "grounds": TrustGrounds(jail="user", replayed=True, measured=True),
    }
    return verdict(**{**said, **changes})


def evidence(report: Report, **changes: object) -> CertificateEvidence:
    """What the archive holds about a verdict."""
    stored = BundleRecord(
        report.bundle,
        records.bundle_from(SOURCE).model_dump_json(),
        tuple(records.readings().model_dump(mode="json") for _ in records.SHAPES),
    )
    measures = report.device.measures
    known = CertificateEvidence(
        search=records.search(devices=(report.device.name,), graphs=graphs()),
        operator=records.OPERATOR,
        candidate=records.candidate(source=SOURCE),
        variant=VariantRecord("candidate-1", 0, {"BLOCK": 128}, report.bundle, None, "", None),
        stored=stored,
        verdict=report,
        reports=(report,),
        examination=None,
        traced_alike=True,
        pacer=records.bundle_from(records.SEED).reduced() if measures else None,
        baseline_us={} if measures else dict.fromkeys(TIMES, 12.5),
        elite=records.elite(device=report.device.name, bundle=report.bundle),
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def certificate(report: Report | None = None, **changes: object) -> Certificate:
    """The certificate of a verdict; of the model's if none is given."""
    return certify(evidence(report or verdict(), **changes))


def lost(report: Report) -> Report:
    """A report that says nothing about a candidate."""
    return report.model_copy(update={"job": "lost", "outcome": Outcome.WORKER_LOST})
