"""Jobs: one order to a worker. Payloads are JSON."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from workers.protocol.base import PROTOCOL_VERSION, Wire
from workers.protocol.device import Device
from workers.protocol.graph import Graph
from workers.protocol.operator import Operator, Shape
from workers.protocol.plan import Bundle, Digest

MAX_SOURCE_BYTES = 256 * 1024
"""Bytes of a candidate's source; the longest kernel files seen in the field are under 100 KB."""


class TraceJob(Wire):
    """Turn a candidate into bundles, one a variant. Without a `source`, export the operator's reference instead."""

    kind: Literal["trace"] = "trace"
    id: str
    search: str
    candidate: str | None = None
    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] | None = None
    operator: Operator
    shapes: tuple[Shape, ...]
    target: str
    seed: int = 0
    """Seeds the sample of autotune configurations; never input values."""
    deadline_s: float = 20.0
    """Seconds for the trace with all its compiling, and again for the assembling. Most candidates need one of them."""
    protocol_version: int = PROTOCOL_VERSION


class MeasureJob(Wire):
    """Judge one variant on one device. `source` is sent to `model` devices only, whose interpreter needs it."""

    kind: Literal["measure"] = "measure"
    id: str
    search: str
    candidate: str
    variant: int
    bundle: Bundle
    operator: Operator
    graphs: tuple[Graph, ...]
    device: Device
    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] | None = None
    pacers: dict[str, Digest] = {}
    """Bundle identity of the pacer, by shape key (measured devices only)."""
    deadline_s: float = 120.0
    protocol_version: int = PROTOCOL_VERSION


class ConfirmJob(Wire):
    """Re-measure a challenger against its cell's incumbent, interleaved, before a promotion."""

    kind: Literal["confirm"] = "confirm"
    id: str
    search: str
    candidate: str
    variant: int
    challenger: Bundle
    incumbent: Bundle | None = None
    operator: Operator
    graphs: tuple[Graph, ...]
    device: Device
    deadline_s: float = 300.0
    protocol_version: int = PROTOCOL_VERSION


Job = Annotated[TraceJob | MeasureJob | ConfirmJob, Field(discriminator="kind")]
JOB: TypeAdapter[TraceJob | MeasureJob | ConfirmJob] = TypeAdapter(Job, config=Wire.model_config)
