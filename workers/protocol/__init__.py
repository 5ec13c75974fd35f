"""The protocol: every value that crosses a process border between the service and the workers.

Pure data, no torch. Read `operator` (what to compute), `plan` (what a candidate does), `job` and `report` in that
order.
"""

from workers.protocol.base import PROTOCOL_VERSION, Wire
from workers.protocol.bench import ANSWER, Answer, Failure, Ready
from workers.protocol.device import DEVICE_TARGETS, Device
from workers.protocol.graph import DtypeRef, Graph, InputRef, Node, NodeRef
from workers.protocol.job import JOB, MAX_SOURCE_BYTES, ConfirmJob, Job, MeasureJob, TraceJob
from workers.protocol.operator import (
    DTYPE_BYTES,
    BenchmarkShape,
    Distribution,
    Input,
    Operator,
    Output,
    Policy,
    Precision,
    Scalar,
    Shape,
    ShapeRole,
)
from workers.protocol.outcome import Outcome, Provenance, Stage, Trust
from workers.protocol.plan import (
    Allocate,
    Buffer,
    Bundle,
    Copy,
    Fill,
    Kernel,
    Launch,
    Number,
    Plan,
    Pointer,
    View,
)
from workers.protocol.report import (
    REASON_CHARS,
    REPORT,
    AnyReport,
    CheckResult,
    Readings,
    Report,
    ShapeResult,
    TracedVariant,
    TraceReport,
)

__all__ = [
    "ANSWER",
    "DEVICE_TARGETS",
    "DTYPE_BYTES",
    "JOB",
    "MAX_SOURCE_BYTES",
    "PROTOCOL_VERSION",
    "REASON_CHARS",
    "REPORT",
    "Allocate",
    "Answer",
    "AnyReport",
    "BenchmarkShape",
    "Buffer",
    "Bundle",
    "CheckResult",
    "ConfirmJob",
    "Copy",
    "Device",
    "Distribution",
    "DtypeRef",
    "Failure",
    "Fill",
    "Graph",
    "Input",
    "InputRef",
    "Job",
    "Kernel",
    "Launch",
    "MeasureJob",
    "Node",
    "NodeRef",
    "Number",
    "Operator",
    "Outcome",
    "Output",
    "Plan",
    "Pointer",
    "Policy",
    "Precision",
    "Provenance",
    "Readings",
    "Ready",
    "Report",
    "Scalar",
    "Shape",
    "ShapeResult",
    "ShapeRole",
    "Stage",
    "TraceJob",
    "TraceReport",
    "TracedVariant",
    "Trust",
    "View",
    "Wire",
]
