"""Reply of a trace, sent from the sandbox. The parent validates it against these bounds before it uses any of it."""

from typing import Annotated, Literal

from pydantic import Field

from workers.protocol import MAX_SOURCE_BYTES, Kernel, Outcome, Plan, Stage, SymbolicPlan, WireModel
from workers.protocol.plan import MAX_KERNELS, MAX_PLANS, Digest
from workers.protocol.report import Line, Reason, Seconds
from workers.protocol.symbolic import MAX_INSTANCES, MAX_SYMBOLIC_PLANS

MAX_VARIANTS = 16
"""Maximum number of configurations that are traced per candidate, over all of its autotuned kernels."""

Configured = bool | int | float | Annotated[str, Field(max_length=256)] | None


class TraceEnded(WireModel):
    """End of a candidate or a variant in the sandbox; `CORRECT` means that no fault was found so far."""

    outcome: Outcome = Outcome.CORRECT
    reason: Reason = ""
    stage: Stage | None = None
    line: Line | None = None


class TracedPlans(TraceEnded):
    """One variant: its configuration, and its plans in the job's order of shapes; no plans if it failed."""

    configuration: Annotated[dict[Annotated[str, Field(max_length=128)], Configured], Field(max_length=64)] = {}
    plans: tuple[Plan, ...] = Field(default=(), max_length=MAX_PLANS)


class TraceReply(TraceEnded):
    """The whole of a candidate: its variants and the kernels that their plans launch, or the reason for having none."""

    variants: tuple[TracedPlans, ...] = Field(default=(), max_length=MAX_VARIANTS)
    kernels: Annotated[dict[Digest, Kernel], Field(max_length=MAX_KERNELS)] = {}
    stages_s: dict[Literal["trace", "compile"], Seconds] = {}


class SymbolicReply(TraceEnded):
    """Symbolic plans of one configuration, and its plans at the job's shapes; `failure` says why plans are missing."""

    plans: tuple[SymbolicPlan, ...] = Field(default=(), max_length=MAX_SYMBOLIC_PLANS)
    instances: tuple[Plan, ...] = Field(default=(), max_length=MAX_INSTANCES)
    failure: Reason = ""


class WrittenSeed(TraceEnded):
    """A candidate's source that TorchInductor wrote, or the reason for having none."""

    source: Annotated[str, Field(max_length=MAX_SOURCE_BYTES)] = ""
