"""Device `recorded`: earlier results on hardware of a class, read from a recording. Needs no GPU.

It answers for recorded kernels, and reports `not_recorded` for all others: a missing record is never replaced by a
guess. Times are the pacer's typical time in the recording times the kernel's ratio to it.
"""

from importlib.metadata import version
from pathlib import Path

from workers.devices.base import DeviceBench
from workers.errors import ToolMissing
from workers.landscape import Landscape, RecordedBundle
from workers.protocol import (
    FIRST_CARD,
    CardShare,
    Device,
    FinalJob,
    MeasureJob,
    Outcome,
    Provenance,
    Report,
    ShapeResult,
    Stage,
)
from workers.recordings import Recordings


class RecordedDevice(DeviceBench):
    """Answers from the recordings of one hardware class."""

    kind = "recorded"
    provenance = Provenance.RECORDED
    confirms = False

    def __init__(self, device: Device, worker: str, seat: CardShare = FIRST_CARD, folder: Path | None = None) -> None:
        """Prepare; recordings are read on first use. `folder` may hold additional ones."""
        super().__init__(device, worker, seat, folder)
        self._recordings = Recordings(device, folder)

    def versions(self) -> dict[str, str]:
        """Return the own version; the recording has those of its measurement."""
        return {"kernelreef": version("kernelreef")}

    def measure(self, job: MeasureJob) -> Report:
        """Report the recording of the bundle.

        Raises:
            ToolMissing: If the file is not a recording.
        """
        landscape = self._recordings.of(job.operator)
        bundle = None if landscape is None else landscape.bundles.get(job.bundle.recorded or "")
        reason = f"{self.device.name} holds no measurement of this bundle"
        missed = {"outcome": Outcome.NOT_RECORDED, "reason": reason, "stage": Stage.TIME}
        report = self._blank(job).model_copy(update=missed)
        if landscape is None or bundle is None:
            return report
        if bundle.outcome is not Outcome.CORRECT:
            found = {"outcome": bundle.outcome, "reason": bundle.reason, "stage": bundle.stage}
            return report.model_copy(update=found)
        missing = [plan.shape.key for plan in job.bundle.benchmarks if plan.shape.key not in bundle.times]
        if missing:
            reason = f"{self.device.name} holds no time of this bundle at {', '.join(missing)}"
            return report.model_copy(update={"reason": reason})
        shapes = tuple(_shape(landscape, bundle, plan.shape.key) for plan in job.bundle.benchmarks)
        return report.model_copy(update={"outcome": Outcome.CORRECT, "reason": "", "stage": None, "shapes": shapes})

    def examine(self, job: FinalJob) -> Report:
        """Refuse: a recording cannot be examined more closely.

        Raises:
            ToolMissing: Always; no service requests it.
        """
        raise ToolMissing(f"{self.device.name} examines nothing: it knows {job.id} from a recording alone")

    def close(self) -> None:
        """Do nothing."""


def _shape(landscape: Landscape, bundle: RecordedBundle, key: str) -> ShapeResult:
    timed, pacer_us = bundle.times[key], landscape.pacer_us[key]
    return ShapeResult(
        shape=key,
        readings=bundle.readings.get(key),
        mid_us=pacer_us * timed.mid,
        low_us=pacer_us * timed.low,
        high_us=pacer_us * timed.high,
        pairs=timed.pairs,
    )
