"""A profile on a device: what the text of a judged plan tells, and on a card its times and the profiler's counters."""

import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workers.assembler import Assembler, MachineCode, assemble
from workers.assembler.sass import SassInstruction
from workers.commands import SECRET_BYTES
from workers.devices.card_processes import CardProcesses
from workers.devices.ending import JudgementEnded
from workers.devices.launch_times import LaunchTimes, time_launches
from workers.errors import BadMessage, Transient
from workers.profiler import ABSENT, NsightCompute, NsightFailed, profile_launches, with_counters
from workers.protocol import Bundle, KernelProfile, Operator, Plan, ProfileJob, ProfileReport
from workers.sanitizer.messages import ReplayRequest
from workers.targets import Target

UNMEASURED = "nothing was measured: this profile is of the machine code alone, without a card"
UNWANTED = "the profiler was not asked for counters"
CopyOf = Callable[[Operator, Bundle, Plan], float | None]
"""Times a copy of the bytes of a plan's shape; may raise `Transient`."""
TimesOf = Callable[[CardProcesses, Operator, Bundle, Mapping[str, MachineCode]], LaunchTimes]


@dataclass(frozen=True)
class ReadPlan:
    """A judged plan, assembled again, and what its machine code tells."""

    bundle: Bundle
    codes: Mapping[str, MachineCode]
    kernels: tuple[KernelProfile, ...]
    instructions: Mapping[str, Sequence[SassInstruction]]
    notes: tuple[str, ...]


def read_plan(job: ProfileJob, target: Target, assembler: Assembler | None = None) -> ReadPlan:
    """Assemble a job's plan again, and read its machine code.

    Raises:
        BadMessage: If it breaks a rule, as no judged plan does.
        ToolMissing: If this machine cannot assemble it.
    """
    if target.vendor != "nvidia":
        raise BadMessage(f"there are no profiles of kernels for {target.name}")
    assembled = assemble(job.bundle, job.operator, assembler)
    if assembled.bundle is None:
        raise BadMessage(f"the plan is refused: {assembled.reason}")
    kernels, instructions, notes = profile_launches(assembled.bundle, assembled.codes, target, job.lined)
    if job.bundle.cubins and assembled.bundle.cubins != job.bundle.cubins:
        notes.append("the machine code differs from the judged one: this machine has another Triton")
    return ReadPlan(assembled.bundle, assembled.codes, tuple(kernels), instructions, tuple(notes))


def report_on(job: ProfileJob, read: ReadPlan, versions: dict[str, str], *notes: str, **found: object) -> ProfileReport:
    """Return a report with more notes and fields."""
    shape = job.bundle.plans[0].shape.key
    notes = (*read.notes, *notes)
    report = ProfileReport(job=job.id, shape=shape, kernels=read.kernels, versions=versions, notes=notes)
    return report.model_copy(update=found)


@dataclass(frozen=True)
class CardProfile:
    """A profile on a card.

    Attributes:
        job: The job.
        read: Its plan, read.
        processes: The processes of the card.
        card: Index of the card.
        nsight: The vendor's profiler; None if this machine has none.
        copy_of: Times copies.
        times_of: Times the plan and its launches.
    """

    job: ProfileJob
    read: ReadPlan
    processes: CardProcesses
    card: int
    nsight: NsightCompute | None
    copy_of: CopyOf
    times_of: TimesOf = time_launches

    def run(self, versions: dict[str, str]) -> ProfileReport:
        """Time the plan, then a copy, then count. What fails is a note; the rest stays.

        Raises:
            CardFailed: If the card or a process that uses it failed.
        """
        notes, found = list[str](), dict[str, object]()
        kernels = list(self.read.kernels)
        try:
            times = self.times_of(self.processes, self.job.operator, self.read.bundle, self.read.codes)
            found["time_us"] = times.plan_us
            for at, time_us in enumerate(times.launches_us):
                kernels[at] = kernels[at].model_copy(update={"time_us": time_us})
        except JudgementEnded as ended:
            notes.append(f"not timed: {ended}")
        self.processes.make_room()
        try:
            found["copy_us"] = self.copy_of(self.job.operator, self.read.bundle, self.read.bundle.plans[0])
        except Transient as error:
            notes.append(f"no copy was timed: {error}")
        try:
            kernels = self._counted(kernels)
        except NsightFailed as error:
            notes.append(str(error))
        return report_on(self.job, self.read, versions, *notes, **found, kernels=tuple(kernels))

    def _counted(self, kernels: Sequence[KernelProfile]) -> list[KernelProfile]:
        """Add counters to the first launches. Nobody else may use the card meanwhile: it counts all of their traffic.

        Raises:
            NsightFailed: If there are none.
        """
        if not self.job.counters:
            raise NsightFailed(UNWANTED)
        if self.nsight is None:
            raise NsightFailed(ABSENT)
        bundle = self.read.bundle
        request = ReplayRequest(
            card=self.card,
            operator=self.job.operator,
            bundle=bundle,
            machine_code={digest: b64encode(self.read.codes[digest].code).decode() for digest in bundle.kernels},
            plans=(0,),
            seed=secrets.token_hex(SECRET_BYTES),
        )
        with self.processes.gpu_lock.exclusive():
            counted = self.nsight.run(request, len(kernels))
        digests = [launch.kernel for launch in bundle.plans[0].launches]
        found = [
            with_counters(kernel, one, self.read.instructions[digest])
            for kernel, one, digest in zip(kernels, counted, digests, strict=False)
        ]
        return [*found, *kernels[len(found) :]]
