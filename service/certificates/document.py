"""Format of certificates: a self-contained JSON document whose id is its own digest.

The id is the SHA-256 of the document without its id, as ASCII JSON with sorted keys and no spaces. Keep it apart from
the document to notice changes. It does not prove who wrote the document.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from kernelreef.validation import invalid
from service.errors import InvalidInput
from workers.protocol import Bundle, Device, Operator, Provenance, Ratio, Readings, Report, Shape, Trust
from workers.protocol.base import Constant, WireModel
from workers.protocol.plan import Digest

FORMAT: Literal["kernelreef.certificate/2"] = "kernelreef.certificate/2"
"""Name and version of the format; the version rises when readers have to change. Version 2 added the examination."""
MAX_BYTES = 256 * 2**20
"""Maximum size of a document: plans of 128 shapes with their kernels stay below a quarter of it."""


class CertifiedOrigin(WireModel):
    """Origin of a candidate. `search_seed` drove proposals and the choice among autotune configurations."""

    search: str
    search_seed: int
    candidate: str
    ordinal: int
    emitter: str
    variant: int


class CertifiedCell(WireModel):
    """Cell that the variant held when the certificate was written, and the figures that won it."""

    cell: int
    coordinates: dict[str, dict[str, Any]]
    axes_version: int
    objective: float
    speedup: Ratio
    revision: int
    placed_at: datetime


class CertifiedFloor(WireModel):
    """Times for moving the bytes of a call at a shape, microseconds; `copy_us` is None if it was not measured."""

    peak_us: float
    copy_us: float | None


class Certificate(WireModel):
    """Evidence for a verdict on one variant on one device.

    Attributes:
        format: `FORMAT`.
        id: Digest of all other fields.
        title: Title, which says whether the figures were measured, predicted or recorded.
        provenance: The same as one word.
        figures: The same as part of a sentence.
        relative_to: Baseline of the speedup, in words.
        device: Device that judged it.
        operator: Operator, with its reference.
        operator_digest: Identity of the operator.
        shapes: Shapes that it was traced for and checked at: benchmark, boundary and held-out.
        graphs: SHA-256 of the reference graph, by shape.
        origin: Origin of the candidate.
        configuration: Autotune configuration of this variant.
        source: Source of the candidate; None if left out.
        source_digest: SHA-256 of the source's normal form.
        bundle: Plans and kernels, with the digest of each kernel's machine code.
        bundle_digest: Identity of the bundle.
        words: Steps of the plan in words, by shape.
        readings: Readings of the machine code, by shape.
        traced_alike: True if a second trace in a new sandbox gave the same bundle.
        pacer: Plans of the benchmark shapes that it was timed beside, if times were measured.
        baseline_us: Times of that seed kernel in microseconds by shape, if speedups are relative to it.
        verdict: The report that counts, with checks, times, raw samples, controls and versions, without the worker's
            name. It has the secret of its inputs if no other job shared that.
        floors: Times for moving the bytes of a call, microseconds by shape: at the card's peak, and of a plain copy.
            Nothing was judged by them. Empty where nothing was measured.
        earlier: Other reports on the same bundle on this device, oldest first.
        examination: Report of its examination as a finalist, without the worker's name; None if it is unexamined.
        speedup: Speedup that the verdict shows.
        trust: Trust label: how much the host could guarantee.
        trust_reasons: Reasons why the label is not a better one.
        admitted: Reason for which mutation testing failed the operator, if the search went on all the same: wrong
            kernels may pass its checks. Empty otherwise.
        reference_seed: Number of the operator's seed that figures relate to; the seeds before it were refused.
        refused_seeds: Sentence about these; empty if there are none.
        place: Cell that it holds; None if it holds none.
        left_out: Missing parts, with reasons.
    """

    format: Literal["kernelreef.certificate/1", "kernelreef.certificate/2"] = FORMAT
    id: str = ""
    title: str
    provenance: Provenance
    figures: str
    relative_to: str
    device: Device
    operator: Operator
    operator_digest: Digest
    shapes: tuple[Shape, ...]
    graphs: dict[str, Digest]
    origin: CertifiedOrigin
    configuration: dict[str, Constant]
    source: str | None
    source_digest: str
    bundle: Bundle
    bundle_digest: Digest
    words: dict[str, tuple[str, ...]]
    readings: dict[str, Readings]
    traced_alike: bool
    pacer: Bundle | None
    baseline_us: dict[str, float]
    verdict: Report
    floors: dict[str, CertifiedFloor] = Field(default_factory=dict, exclude_if=lambda floors: not floors)
    earlier: tuple[Report, ...]
    examination: Report | None = None
    speedup: Ratio | None
    trust: Trust | None
    trust_reasons: tuple[str, ...]
    place: CertifiedCell | None
    admitted: str = Field(default="", exclude_if=lambda reason: not reason)
    reference_seed: int = Field(default=0, ge=0, exclude_if=lambda number: not number)
    refused_seeds: str = Field(default="", exclude_if=lambda said: not said)
    left_out: tuple[str, ...]

    @model_validator(mode="after")
    def _has_reference_seed(self) -> Self:
        if self.reference_seed and self.reference_seed >= len(self.operator.seeds):
            raise ValueError(f"figures relate to seed {self.reference_seed}, which the operator does not have")
        return self

    def text(self) -> str:
        """Return the indented document. The order of keys matters for digests of operators and words of plans."""
        return self.model_dump_json(indent=1)


class LoadedCertificate(WireModel):
    """Certificate from a file, and its actual digest."""

    certificate: Certificate
    digest: Annotated[str, Field(min_length=64, max_length=64)]


def digest_of(document: Mapping[str, Any]) -> str:
    """Compute the correct id of a document, whatever id it states."""
    body = {name: value for name, value in document.items() if name != "id"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(certificate: Certificate) -> Certificate:
    """Return a certificate with its id filled in."""
    return certificate.model_copy(update={"id": digest_of(json.loads(certificate.model_dump_json()))})


def read(text: bytes) -> LoadedCertificate:
    """Parse a document. The caller has to compare its id with the computed digest.

    Raises:
        InvalidInput: If it is not a certificate of this format; names the first wrong field.
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"the document has {len(text)} bytes; the limit is {MAX_BYTES}", "CERTIFICATE")
    try:
        document = json.loads(text)
        certificate = Certificate.model_validate_json(json.dumps(document))
    except ValidationError as error:
        problem = invalid(error, Certificate)
        where = f"{problem.field}: " if problem.field else ""
        detail = f"this is not a certificate of the format {FORMAT}: {where}{problem.detail}"
        raise InvalidInput(detail, "CERTIFICATE") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"this is not a JSON document: {error}", "CERTIFICATE") from error
    return LoadedCertificate(certificate=certificate, digest=digest_of(document))
