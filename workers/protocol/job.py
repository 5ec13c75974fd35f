"""Jobs: one request to a worker each. Payloads are JSON."""

from typing import Annotated, Literal, Protocol, TypeAlias

from pydantic import Field, TypeAdapter

from workers.protocol.base import PROTOCOL_VERSION, Constant, Ours, WireModel
from workers.protocol.device import Device
from workers.protocol.graph import Graph
from workers.protocol.operator import MAX_SOURCE_BYTES, Identifier, Operator, Shape
from workers.protocol.plan import Bundle, Digest
from workers.protocol.toolchain import Release

PRACTICAL_MARGIN = 0.005
"""Relative margin by which a challenger must certainly be faster than the incumbent (evaluation protocol 3.4)."""
MEASURED_DEADLINE_S = 900.0
"""Seconds for a job on a card. The first one for an operator also times the baselines, and torch.compile with
max-autotune may take minutes over all benchmark shapes; all others take seconds."""
BUSY = 4.0
"""Wall-clock limit of a trace in units of its processor time limit: cores have other work as well."""


PREDICT_S = 20.0
"""Seconds of processor time to predict the times of all variants of a source; most need one second each."""


class TraceJob(WireModel):
    """Turn a candidate into bundles, one per variant. Without `source` and `bundle`, export the operator's reference.

    With `drafts` and neither of the two, TorchInductor writes a candidate from the reference.
    """

    kind: Literal["trace"] = "trace"
    id: str
    search: str
    candidate: str | None = None
    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] | None = None
    drafts: bool = False
    mutation_testing: bool = True
    """True to test the operator's checks with an exported reference. A search asks for that in a job of its own: its
    first seed needs the reference alone."""
    bundle: Bundle | None = None
    """Plans that were traced elsewhere, in place of a source: they are checked against the operator and assembled
    again."""
    symbolic: Annotated[dict[Identifier, Constant], Field(max_length=64)] | None = None
    """Configuration of the variant whose host code is traced with symbolic sizes, in place of compiling. The shapes are
    where such traces start, and where the results are compared with plain traces."""
    operator: Operator
    shapes: tuple[Shape, ...]
    target: str
    device: Device | None = None
    """Recording that gives the result for a source; None to compile it."""
    compiler: Release | None = None
    """Release of Triton that the worker has to have; None for any."""
    seed: int = 0
    """Seed of the sample of autotune configurations; never of input values."""
    deadline_s: float = 20.0
    """Seconds of processor time for the trace with all compilation. The wall-clock limit is `BUSY` times as long, and
    as long again for assembling. Most candidates need one second."""
    lines: bool = False
    """True to compile with the candidate's line numbers in the assembly text, for a profile. The kernels are then other
    ones than those that are judged, with the same instructions."""
    references: bool = False
    """True to export the operator's reference for the same shapes too, without repeating mutation testing. A finalist's
    random shapes need that, because they are new."""
    graphs: tuple[Graph, ...] = ()
    """Reference graphs at benchmark shapes, for times of a source that is not judged. Empty: no times."""
    protocol_version: Ours = PROTOCOL_VERSION


class MeasureJob(WireModel):
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
    compiler: Release | None = None
    """As in a trace job, for `model` devices: they execute what their own Triton compiles."""
    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] | None = None
    pacer: Bundle | None = None
    """The bundle that the candidate is timed beside, on devices that measure: the first seed's benchmark plans. None if
    the candidate is that seed, which is its own pacer."""
    seed: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){16,64}$")] | None = None
    """Secret from an earlier report, to repeat its verdict on the same inputs, on devices whose reports reveal it. None
    draws a new one, as for every first verdict."""
    related: bool = True
    """True to relate the pacer to the baselines, as soon as they are measured. Otherwise a report has paired times
    alone; measuring baselines takes half a minute per operator."""
    waits_for_baselines: bool = False
    """True to report only when the baselines are measured. Otherwise they are measured beside other jobs, and reports
    have a speedup from then on."""
    eager_alone: bool = False
    """True to time eager PyTorch alone in a few rounds, in place of all baselines and copies, and the candidate in the
    minimum number of pairs: enough for the choice between the two at a shape, which an export makes at dozens of
    shapes. Such figures are kept for no other job."""
    deadline_s: float = 120.0
    protocol_version: Ours = PROTOCOL_VERSION

    @property
    def subject(self) -> str:
        """Identity of the bundle that gets the verdict."""
        return self.bundle.identity


class ConfirmJob(WireModel):
    """Check and time a challenger again before a promotion, interleaved with its cell's incumbent if there is one."""

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
    compiler: Release | None = None
    """As in a trace job, for `model` devices: they execute what their own Triton compiles."""
    pacer: Bundle | None = None
    """As in a measure job."""
    deadline_s: float = MEASURED_DEADLINE_S
    protocol_version: Ours = PROTOCOL_VERSION

    @property
    def subject(self) -> str:
        """Identity of the bundle that gets the verdict."""
        return self.challenger.identity


class FinalJob(WireModel):
    """Examine the holder of a cell more closely: under the sanitizer, and on many random shapes."""

    kind: Literal["final"] = "final"
    id: str
    search: str
    candidate: str
    variant: int
    finalist: Digest
    """Identity of the bundle that holds the cell."""
    bundle: Bundle
    """The same candidate traced again, for the shapes of its search and for random ones."""
    operator: Operator
    graphs: tuple[Graph, ...]
    """The reference at every shape of the bundle."""
    unreached: str = ""
    """Reason why no random shape of the bundle has an input of more than 2^31 elements; empty if one has."""
    device: Device
    compiler: Release | None = None
    """As in a trace job, for `model` devices: they execute what their own Triton compiles."""
    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] | None = None
    """As in a measure job."""
    deadline_s: float = MEASURED_DEADLINE_S
    protocol_version: Ours = PROTOCOL_VERSION

    @property
    def subject(self) -> str:
        """Identity of the bundle that gets the verdict."""
        return self.finalist


class LimitedWork(Protocol):
    """Work that an executor ends by itself after a time."""

    @property
    def deadline_s(self) -> float:
        """Seconds of that time."""


def patience_s(job: LimitedWork) -> float:
    """Return the wall-clock seconds after which an executor has failed; it keeps the deadline itself."""
    if not isinstance(job, TraceJob):
        return 2 * job.deadline_s
    predicting_s = BUSY * PREDICT_S if job.graphs else 0.0
    return (BUSY * (2 if job.references else 1) + 1) * job.deadline_s + predicting_s


def bundle_of(job: MeasureJob | ConfirmJob | FinalJob) -> Bundle:
    """Return the bundle that a job evaluates."""
    return job.challenger if isinstance(job, ConfirmJob) else job.bundle


Job: TypeAlias = TraceJob | MeasureJob | ConfirmJob | FinalJob
JOB: TypeAdapter[Job] = TypeAdapter(Annotated[Job, Field(discriminator="kind")], config=WireModel.model_config)
