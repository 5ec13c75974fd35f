"""What a trace sends out of the jail. The parent holds it against these bounds before it believes any of it."""

from typing import Annotated, Literal

from pydantic import Field

from workers.protocol import MAX_SOURCE_BYTES, Kernel, Outcome, Plan, Stage, WireModel
from workers.protocol.plan import MAX_PLANS, Digest
from workers.protocol.report import Line, Reason, Seconds

MAX_VARIANTS = 16
"""Configurations of a candidate's autotuned kernels that are traced, all kernels together."""
MAX_KERNELS = 512
"""Distinct compiled kernels over all variants."""

Configured = bool | int | float | Annotated[str, Field(max_length=256)] | None


class TraceEnded(WireModel):
    """How a candidate or a variant ended in the jail: `CORRECT` means that nothing was found against it so far."""

    outcome: Outcome = Outcome.CORRECT
    reason: Reason = ""
    stage: Stage | None = None
    line: Line | None = None


class TracedPlans(TraceEnded):
    """One variant: its configuration, and its plans in the job's order of shapes unless something stopped it."""

    configuration: Annotated[dict[Annotated[str, Field(max_length=128)], Configured], Field(max_length=64)] = {}
    plans: tuple[Plan, ...] = Field(default=(), max_length=MAX_PLANS)


class TraceReply(TraceEnded):
    """All of a candidate: its variants and the kernels that their plans launch, or why there is none."""

    variants: tuple[TracedPlans, ...] = Field(default=(), max_length=MAX_VARIANTS)
    kernels: Annotated[dict[Digest, Kernel], Field(max_length=MAX_KERNELS)] = {}
    stages_s: dict[Literal["trace", "compile"], Seconds] = {}


class WrittenSeed(TraceEnded):
    """A candidate's text that TorchInductor wrote, or why there is none."""

    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] = ""
