"""The format of a certificate: one JSON document that needs nothing beside it, named by its own digest.

The id is the SHA-256 of the document without its id, as ASCII JSON with sorted keys and no spaces. It says that nothing
was changed since it was noted down, not who wrote it: keep the id apart from the document to notice changes.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from service.errors import InvalidInput
from workers.protocol import Bundle, Device, Operator, Provenance, Ratio, Readings, Report, Shape, Trust
from workers.protocol.base import Constant, WireModel
from workers.protocol.plan import Digest

FORMAT = "kernelreef.certificate/1"
"""Raised when a reader would have to change."""
MAX_BYTES = 256 * 2**20
"""Longest document that is read: plans of 128 shapes with their kernels stay below a quarter of it."""


class CertifiedOrigin(WireModel):
    """Where a candidate comes from. `search_seed` drove proposals and the choice among autotune configurations."""

    search: str
    search_seed: int
    candidate: str
    ordinal: int
    emitter: str
    variant: int


class CertifiedCell(WireModel):
    """The cell that it held when this was written, and the figures that won it."""

    cell: int
    coordinates: dict[str, dict[str, Any]]
    axes_version: int
    objective: float
    speedup: Ratio
    revision: int
    placed_at: datetime


class Certificate(WireModel):
    """All that a verdict on one variant on one device rests on.

    Attributes:
        format: `FORMAT`.
        id: Digest of the rest.
        title: What it certifies, in a line; says whether the figures were measured, predicted or recorded.
        provenance: The same in a word.
        figures: The same in a sentence's part.
        relative_to: What the speedup is relative to.
        device: What judged it.
        operator: What is computed, with its reference.
        operator_digest: Its identity.
        shapes: What it was traced for, and thereby checked at: benchmark, boundary and held-out shapes.
        graphs: By shape, SHA-256 of the reference graph that it was held against.
        origin: Where the candidate comes from.
        configuration: The autotune choice that made this variant.
        source: The candidate; None where it was left out.
        source_digest: SHA-256 of its normal form.
        bundle: Its plans and kernels, with the digest of each kernel's machine code.
        bundle_digest: The bundle's identity.
        words: By shape, what its plan does, in words.
        readings: By shape, what was read from its machine code.
        traced_alike: Whether a second trace in a fresh jail gave the same bundle.
        pacer: What it was timed beside, where times were measured: plans of the benchmark shapes.
        baseline_us: Times of the seed kernel by shape, microseconds, where speedups are relative to it.
        verdict: The report that counts, with checks, times, raw samples, controls, versions, and, where it was this
            job's alone, the secret that its inputs were drawn from. Which worker sent it is left out.
        earlier: Other reports on the same bundle on this device, oldest first.
        speedup: What the verdict comes to.
        trust: How much the host could guarantee.
        trust_reasons: Why it is not more.
        place: The cell that it holds; None if it holds none.
        left_out: What is not here, and why.
    """

    format: Literal["kernelreef.certificate/1"] = "kernelreef.certificate/1"
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
    earlier: tuple[Report, ...]
    speedup: Ratio | None
    trust: Trust | None
    trust_reasons: tuple[str, ...]
    place: CertifiedCell | None
    left_out: tuple[str, ...]

    def text(self) -> str:
        """The document, indented. The order of keys matters: digests of operators and words of plans follow it."""
        return self.model_dump_json(indent=1)


class LoadedCertificate(WireModel):
    """A certificate out of a file, and the digest that it really has."""

    certificate: Certificate
    digest: Annotated[str, Field(min_length=64, max_length=64)]


def digest_of(document: Mapping[str, Any]) -> str:
    """The id that a document should have, whatever it says itself."""
    body = {name: value for name, value in document.items() if name != "id"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(certificate: Certificate) -> Certificate:
    """A certificate with its id."""
    return certificate.model_copy(update={"id": digest_of(json.loads(certificate.model_dump_json()))})


def read(text: bytes) -> LoadedCertificate:
    """Read a document as it came; whether it is what its id says is for the caller to compare.

    Raises:
        InvalidInput: If it is no certificate of this format; names the first field that is wrong.
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"it has {len(text)} bytes; at most {MAX_BYTES} are read", "CERTIFICATE")
    try:
        document = json.loads(text)
        certificate = Certificate.model_validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InvalidInput(
            f"this is no certificate of the format {FORMAT}: {where}: {first['msg']}", "CERTIFICATE"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"this is no JSON document: {error}", "CERTIFICATE") from error
    return LoadedCertificate(certificate=certificate, digest=digest_of(document))
