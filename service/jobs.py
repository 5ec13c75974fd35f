"""From records to jobs: what is sent to the workers, under ids that make a second sending harmless."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from archive.records import Candidate, Search
from workers.protocol import PROTOCOL_VERSION, Bundle, Device, Graph, MeasureJob, Operator, Shape, TraceJob


def reference_id(search: str) -> str:
    """Id of the job that exports a search's reference graphs."""
    return f"{search}:reference"


def trace_id(candidate: str) -> str:
    """Id of the job that traces a candidate."""
    return f"{candidate}:trace"


def measure_id(candidate: str, variant: int, device: str) -> str:
    """Id of the job that judges a variant on a device."""
    return f"{candidate}:{variant}:{device}:measure"


def target_of(search: Search) -> str:
    """The one target that a search compiles for."""
    return Device.parse(search.devices[0]).target


def trace_key(digest: str, operator: str, shapes: Sequence[Mapping[str, Any]], target: str) -> str:
    """What two trace jobs share when their results must be equal: source, operator, shapes, target and protocol."""
    body = json.dumps([digest, operator, list(shapes), target, PROTOCOL_VERSION], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


def reference_job(search: Search, operator: Operator) -> TraceJob:
    """Export the operator's reference for the search's shapes."""
    return TraceJob(
        id=reference_id(search.id),
        search=search.id,
        operator=operator,
        shapes=_shapes(search),
        target=target_of(search),
    )


def trace_job(search: Search, operator: Operator, candidate: Candidate) -> TraceJob:
    """Turn a candidate into bundles."""
    return TraceJob(
        id=trace_id(candidate.id),
        search=search.id,
        candidate=candidate.id,
        source=candidate.source,
        operator=operator,
        shapes=_shapes(search),
        target=target_of(search),
        seed=search.seed,
    )


def measure_job(
    search: Search, operator: Operator, candidate: Candidate, *, variant: int, bundle: Bundle, device: Device
) -> MeasureJob:
    """Judge one variant on one device; only `model` devices are sent the source."""
    return MeasureJob(
        id=measure_id(candidate.id, variant, device.name),
        search=search.id,
        candidate=candidate.id,
        variant=variant,
        bundle=bundle,
        operator=operator,
        graphs=tuple(Graph.model_validate(graph) for graph in search.graphs),
        device=device,
        source=candidate.source if device.kind == "model" else None,
    )


def _shapes(search: Search) -> tuple[Shape, ...]:
    return tuple(Shape.model_validate(shape) for shape in search.shapes)
