"""The device socket: judges one variant on one kind of device.

A device takes a job and returns a report. It owns everything between: inputs, execution, checks, times. It runs in the
executor, never in the lease loop. A candidate's mistakes are outcomes; an exception means that the machine failed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from workers.checks import CHECKS, Check
from workers.devices.profiling import UNMEASURED, read_plan, report_on
from workers.errors import ToolMissing
from workers.protocol import (
    FIRST_CARD,
    Bundle,
    CardShare,
    ConfirmJob,
    Device,
    FinalJob,
    MeasureJob,
    Outcome,
    ProfileJob,
    ProfileReport,
    Provenance,
    Report,
    TrustGrounds,
    bundle_of,
    label,
)
from workers.targets import TARGETS


class DeviceBench(ABC):
    """A judge of variants on one device.

    Attributes:
        kind: The `Device.kind` it serves; also its key in the table.
        provenance: Origin of its times.
        confirms: True if a promotion needs a second, interleaved measurement here.
    """

    kind: ClassVar[str]
    provenance: ClassVar[Provenance]
    confirms: ClassVar[bool]

    def __init__(
        self,
        device: Device,
        worker: str,
        seat: CardShare = FIRST_CARD,
        folder: Path | None = None,
        checks: Mapping[str, Check] = CHECKS,
    ) -> None:
        """Prepare the device.

        Args:
            device: The device it serves.
            worker: The id that its reports carry.
            seat: Card of this machine, and number of sharers, on devices that measure.
            folder: Folder for persistent data, such as times of baselines; None keeps nothing.
            checks: Checks of candidates. Only tests pass another table: a rogue that a check stops must get through
                without that check.

        Raises:
            ToolMissing: If this machine has no such device.
        """
        self.device = device
        self.worker = worker
        self.seat = seat
        self.folder = folder
        self.checks = checks

    @property
    def spent_s(self) -> dict[str, float]:
        """Seconds of waiting for its processes so far, by kind of command."""
        return {}

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of everything that influences a figure, by name."""

    @abstractmethod
    def measure(self, job: MeasureJob) -> Report:
        """Check the variant, cheap checks first, and time it if it is correct. The first failure ends the job.

        Raises:
            Transient: If the machine failed and another try may succeed.
        """

    def confirm(self, job: ConfirmJob) -> Report:
        """Measure challenger and incumbent interleaved. Only for devices whose `confirms` is true.

        Raises:
            ToolMissing: If this device never confirms.
        """
        raise ToolMissing(f"{self.device.name} does not confirm {job.id}: its figures do not change between runs")

    def foresee(self, bundle: Bundle) -> None:
        """Start preparing for a later job on this bundle. Most devices have nothing to prepare."""
        return

    def is_prepared(self, bundle: Bundle) -> bool:
        """Return True if a job on this foreseen bundle need not wait for its preparation."""
        return True

    def rest(self) -> None:
        """Give up what others wait for, between two jobs. Most devices hold nothing that others need.

        Raises:
            Transient: If the machine failed.
        """
        return

    @abstractmethod
    def examine(self, job: FinalJob) -> Report:
        """Examine the holder of a cell as closely as this machine can; a check that it cannot make is `skipped`.

        Raises:
            Transient: If the machine failed and another try may succeed.
        """

    def profile(self, job: ProfileJob) -> ProfileReport:
        """Explain the time of a judged plan, as far as this device can: here, by its machine code alone.

        Raises:
            BadMessage: If the plan breaks a rule, as no judged plan does.
            Transient: If the machine failed and another try may succeed.
        """
        return report_on(job, read_plan(job, TARGETS[job.bundle.target]), self.versions(), UNMEASURED)

    @abstractmethod
    def close(self) -> None:
        """Release what the device holds. Idempotent."""

    def _blank(self, job: MeasureJob | ConfirmJob | FinalJob, grounds: TrustGrounds | None = None) -> Report:
        """Return a report without findings. Without grounds it has no trust either."""
        versions = self.versions()
        toolchain = bundle_of(job).toolchain
        if toolchain is not None:
            here = versions.get("triton", toolchain.triton)
            versions = versions | toolchain.versions | ({} if here == toolchain.triton else {"host triton": here})
        return Report(
            kind=job.kind,
            job=job.id,
            search=job.search,
            candidate=job.candidate,
            variant=job.variant,
            bundle=job.subject,
            device=self.device,
            worker=self.worker,
            versions=versions,
            outcome=Outcome.CORRECT,
            trust=None if grounds is None else label(grounds)[0],
            grounds=grounds,
            provenance=self.provenance,
        )
