"""Profiles: a request to explain the time of one plan of a judged bundle, and the result. Nothing is judged by them.

They go from the command line to an executor of the same machine, never through the queue.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from workers.protocol.base import PROTOCOL_VERSION, Ours, WireModel
from workers.protocol.card import CardSheet
from workers.protocol.job import MEASURED_DEADLINE_S
from workers.protocol.operator import Operator
from workers.protocol.plan import Bundle
from workers.protocol.report import Count, Line, Rate, Reason

MAX_HOTTEST = 16
"""Maximum number of instructions that a profile shows per kernel; more fill a screen."""

Text = Annotated[str, Field(max_length=400)]
Microseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ProfileJob(WireModel):
    """Profile the only plan of a bundle.

    Attributes:
        operator: The contract.
        bundle: The judged bundle, with one plan.
        lined: The same candidate traced with line numbers, whose kernels have the same machine code; None without
            its source.
        counters: True to run the vendor's profiler, if the machine has it.
    """

    kind: Literal["profile"] = "profile"
    id: str
    operator: Operator
    bundle: Bundle
    lined: Bundle | None = None
    counters: bool = True
    deadline_s: float = MEASURED_DEADLINE_S
    protocol_version: Ours = PROTOCOL_VERSION

    @model_validator(mode="after")
    def _one_plan(self) -> "ProfileJob":
        if len(self.bundle.plans) != 1:
            raise ValueError(f"a profile is of one plan; the bundle has {len(self.bundle.plans)}")
        return self


class HotInstruction(WireModel):
    """One instruction of the machine code that costs much.

    Attributes:
        offset: Its place in the kernel, bytes.
        text: The instruction, as the vendor's disassembler writes it.
        line: The candidate's line; None if unknown.
        depth: Number of loops around it.
        count: Number of such instructions, of the same opcode, line and depth; 1 with counters.
        samples: Samples in which a warp was at it; None without counters.
        executed: Number of times that a warp executed it; None without counters.
        stall: Most frequent reason for which warps waited at it, in the profiler's words; empty if unknown.
    """

    offset: Count
    text: Text
    line: Line | None = None
    depth: Count = 0
    count: Count = 1
    samples: Count | None = None
    executed: Count | None = None
    stall: Text = ""


class KernelProfile(WireModel):
    """One launch of the plan.

    Attributes:
        function: Name of the candidate's function.
        line: Line of the launch in the candidate's source.
        time_us: Time that it adds to the call, fills and copies before it included; None where nothing was measured.
        programs: Programs of the launch.
        num_warps: Warps per program.
        registers: Registers per thread.
        spill_bytes: Bytes of spilled registers per thread.
        shared_bytes: Shared memory per program.
        resident: Programs that a multiprocessor holds at a time.
        limiters: Resources that limit `resident`.
        occupancy: Share of a multiprocessor's warp slots that can be resident, 0 to 1.
        waves: Programs over those that the card holds at a time.
        opcodes: Number of instructions in the machine code by opcode, without modifiers.
        classes: The same by class, as in `Readings`.
        hottest: Instructions in order of cost: by samples, or without counters by loops around them and issue cycles.
        counters: The profiler's counters by our names; empty without them.
        stalls: Shares of the samples in which warps waited, by reason; empty without counters.
    """

    function: Text
    line: Line | None = None
    time_us: float | None = None
    programs: Count
    num_warps: Count
    registers: Count
    spill_bytes: Count
    shared_bytes: Count
    resident: Count
    limiters: tuple[str, ...]
    occupancy: Rate
    waves: Rate
    opcodes: dict[str, Count] = {}
    classes: dict[str, Count] = {}
    hottest: Annotated[tuple[HotInstruction, ...], Field(max_length=MAX_HOTTEST)] = ()
    counters: dict[str, float] = {}
    stalls: dict[str, float] = {}


class ProfileReport(WireModel):
    """The result of a profile.

    Attributes:
        job: Id of the job.
        shape: Key of the plan's shape.
        kernels: The launches, in order.
        time_us: Time of a call by the clock of the judge; None where nothing was measured.
        copy_us: Time of a plain copy of the bytes that a call must move; None where nothing was measured.
        card: Facts of the card; None where nothing was measured.
        versions: Versions of everything that influences a figure.
        notes: What could not be found out, and why, one line each.
    """

    kind: Literal["profiled"] = "profiled"
    job: str
    protocol_version: int = PROTOCOL_VERSION
    shape: str
    kernels: tuple[KernelProfile, ...]
    time_us: Microseconds | None = None
    copy_us: Microseconds | None = None
    card: CardSheet | None = None
    versions: dict[str, str] = {}
    notes: tuple[Reason, ...] = ()
