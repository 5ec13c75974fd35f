"""Messages between the executor and the process that measures baselines, one JSON object each way."""

from typing import Annotated

from pydantic import Field

from workers.protocol import DTYPE_BYTES, Bundle, Graph, Operator, Plan
from workers.protocol.base import WireModel

PACER = "pacer"
"""Name of the contender that all others are relative to."""

Bytes = Annotated[int, Field(ge=0, le=2**48)]
Microseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CopySize(WireModel):
    """Size of a plain copy: the bytes that a call has to read, and those that it has to write."""

    read_bytes: Bytes
    written_bytes: Bytes

    @classmethod
    def of(cls, operator: Operator, plan: Plan) -> "CopySize":
        """Return the size at a plan's shape: all inputs read once, all outputs written once."""
        written = sum(view.elements * DTYPE_BYTES[view.dtype] for view in plan.outputs)
        return cls(read_bytes=operator.input_bytes(plan.shape.dims), written_bytes=written)


class CopyTime(WireModel):
    """Time of our own copy kernel with a size, timed as baselines are."""

    size: CopySize
    time_us: Microseconds
    """Median over rounds, per call, of the fastest block size."""


class BaselineRequest(WireModel):
    """Request to the process: time the baselines beside the pacer, and copies.

    Everything here is data: the reference arrives as graphs, the pacer as plans with the machine code of its kernels.
    """

    operator: Operator
    graphs: tuple[Graph, ...]
    """One graph per plan of the pacer, of the same shape; none if only copies are asked for."""
    pacer: Bundle
    """Bundle of the pacer, with its plans of benchmark shapes only."""
    machine_code: dict[str, str]
    """Machine code of every kernel by its digest, base64."""
    copies: tuple[CopySize, ...] = ()
    eager_alone: bool = False
    """True for eager PyTorch as the only contender, in `BRIEF_ROUNDS` rounds."""
    half_width: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Relative half-width of every ratio at which the timing ends, after `BRIEF_ROUNDS` rounds at the earliest; 0 for
    all rounds."""


class BaselineFigure(WireModel):
    """One contender at one shape."""

    time_us: Microseconds
    """Median over rounds, per call."""
    time_half_width: float
    """Half of the median's 95 % interval over the median."""
    over_pacer: Microseconds
    """Its time over the pacer's: the 20 % trimmed mean of the logarithms of ratios within rounds, converted back to a
    ratio."""
    half_width: float
    """Half of the 95 % interval of that logarithm: the relative half-width of `over_pacer`."""


class Baseline(WireModel):
    """The figures of one shape relative to its pacer. Every contender ran as a CUDA graph, with a cold cache."""

    shape: str
    pacer_us: Microseconds
    """Median over rounds, per call."""
    pacer_half_width: float
    """Half of the median's 95 % interval over the median."""
    figures: dict[str, BaselineFigure]
    """Figures by name of the contender, without the pacer."""
    pairs: int
    """Number of rounds that counted; each contender was timed once per round."""
    skipped: dict[str, str] = {}
    """Reason why a contender was not timed, by its name."""
    spent_s: dict[str, float] = {}
    """Seconds until each contender was ready, by name; of the timing (`contest`); and of all waiting for turns
    (`waited`)."""
    copy_us: Microseconds | None = None
    """Time of a plain copy of the same bytes, from `CopyTime`; None if it is not measured."""

    @property
    def baselines_us(self) -> dict[str, float]:
        """Microseconds per call by name of the contender."""
        return {name: figure.time_us for name, figure in self.figures.items()}

    def best(self) -> BaselineFigure | None:
        """The fastest contender without the pacer; None if there is none."""
        return min(self.figures.values(), key=lambda figure: figure.over_pacer, default=None)


class BaselineReply(WireModel):
    """Reply of the process."""

    baselines: tuple[Baseline, ...]
    """One baseline per plan of the request, in its order."""
    copies: tuple[CopyTime, ...] = ()
    """Copies of the request that fit the card's free memory, in its order."""
    versions: dict[str, str]
    """Versions of torch, triton, liger, helion, driver and cuda as the process saw them, and the card's name."""
