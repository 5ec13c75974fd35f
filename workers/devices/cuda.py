"""Device `cuda`: judges variants by replaying their plans on a card. Every figure is measured.

The bench that holds this device never opens the card itself: the crew does, in processes of their own.
"""

import secrets
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from workers import jail
from workers.baselines import Baseline, measure_baselines
from workers.devices.assembling import Assemblers
from workers.devices.base import DeviceBench
from workers.devices.crew import Crew
from workers.devices.measurement import Measurement, Setting
from workers.devices.trial import SECRET_BYTES
from workers.devices.verdict import Ended
from workers.errors import BadMessage, ToolMissing
from workers.protocol import (
    Bundle,
    ConfirmJob,
    Device,
    Graph,
    Grounds,
    MeasureJob,
    Operator,
    Outcome,
    Provenance,
    Report,
    device_of_card,
    label,
)
from workers.targets import TARGETS

PAIRS = 16
"""Pairs a shape when a variant is judged: half a per cent at a per-pair deviation of 1 % (evaluation protocol 3.3)."""
CONFIRM_PAIRS = 64
"""Pairs a shape before a promotion."""
BRIEF_PAIRS = 4
"""Pairs a shape of a brief measurement: the fewest that have an interval."""
JOBS_A_SEED = 500
"""Jobs after which timed content is drawn from a new secret."""
JOBS_A_BATCH = 50
"""Measurements on an operator between two trials of its controls, which take 0.2 s; every confirm has its own."""
Job = MeasureJob | ConfirmJob


@dataclass(frozen=True)
class _Batch:
    """Measurements that rest on the same controls: what these gave, and how many there are so far."""

    controls: dict[str, float]
    jobs: int


class CudaDevice(DeviceBench):
    """Judges variants on one card of this machine."""

    kind = "cuda"
    provenance = Provenance.MEASURED
    confirms = True

    def __init__(self, device: Device, worker: str, card: int = 0, folder: Path | None = None) -> None:
        """Start the crew. In `folder` baselines are remembered.

        Raises:
            ToolMissing: If the card is not of the class.
            CardFailed: If it cannot be opened.
        """
        super().__init__(device, worker, card, folder)
        self._target = TARGETS[device.target]
        self._seeds: dict[tuple[str, str], str] = {}
        self._batches: dict[str, _Batch] = {}
        self._jobs = 0
        self._assemblers = Assemblers()
        self._crew = Crew(card, self._target)
        self._setting = Setting(self._crew, self._assemblers, self._target, self._baselines, self._seed)
        if device_of_card(self._crew.opened.card) != device:
            self._crew.close()
            raise ToolMissing(f"card {card} is '{self._crew.opened.card}', which is no {device.name}")

    def versions(self) -> dict[str, str]:
        """Versions of everything that influences a figure."""
        ours = {name: version(name) for name in ("torch", "triton", "kernelreef")}
        return {**ours, **self._crew.opened.versions}

    def measure(self, job: MeasureJob) -> Report:
        """Check the variant and time it against the pacer.

        Raises:
            BadMessage: If the bundle is for another target.
            CardFailed: If the card or a process that uses it failed.
        """
        measurement = Measurement(
            job.operator,
            job.graphs,
            job.bundle,
            job.pacer,
            self._setting,
            related=job.related,
            controls=self._controls_of(job.operator),
        )
        return self._judge(job, measurement, None, PAIRS)

    def measure_briefly(self, job: MeasureJob) -> Report:
        """The same as `measure` with as few pairs as there can be, for recording thousands of variants in minutes.

        Benchmark plans are checked by every output of their timed runs, the others by runs of their own. The times are
        those of the race alone; nothing that was measured so can hold a cell.

        Raises:
            BadMessage: If the bundle is for another target.
            CardFailed: If the card or a process that uses it failed.
        """
        measurement = Measurement(
            job.operator,
            job.graphs,
            job.bundle,
            job.pacer,
            self._setting,
            related=False,
            briefly=True,
            controls=self._controls_of(job.operator),
        )
        return self._judge(job, measurement, None, BRIEF_PAIRS)

    def confirm(self, job: ConfirmJob) -> Report:
        """Check the challenger anew and time it against the pacer and against the incumbent, longer.

        Raises:
            BadMessage: If the bundle is for another target.
            CardFailed: If the card or a process that uses it failed.
        """
        measurement = Measurement(job.operator, job.graphs, job.challenger, job.pacer, self._setting)
        return self._judge(job, measurement, job.incumbent, CONFIRM_PAIRS)

    def foresee(self, bundle: Bundle) -> None:
        """Begin to assemble its kernels."""
        self._assemblers.start(bundle)

    def close(self) -> None:
        """End the crew and the assemblers."""
        self._crew.close()
        self._assemblers.close()

    def _judge(self, job: Job, measurement: Measurement, incumbent: Bundle | None, pairs: int) -> Report:
        bundle = measurement.bundle
        if bundle.target != self._target.name:
            raise BadMessage(f"{self.device.name} runs {self._target.name}; job {job.id} is for {bundle.target}")
        found: dict[str, object] = {"outcome": Outcome.CORRECT}
        try:
            found |= measurement.run(incumbent, pairs)
        except Ended as ended:
            found |= ended.found
        self._count_job(job.operator, measurement)
        # A control that fails, and clocks that disagree, are failures of ours that no report comes from.
        agreed = bool(measurement.controls)
        grounds = Grounds(jail=jail.probe(), replayed=True, measured=True, agreed=agreed)
        report = Report(
            kind=job.kind,
            job=job.id,
            search=job.search,
            candidate=job.candidate,
            variant=job.variant,
            bundle=bundle.identity,
            device=self.device,
            worker=self.worker,
            versions=self.versions(),
            outcome=Outcome.CORRECT,
            trust=label(grounds)[0],
            grounds=grounds,
            provenance=self.provenance,
            checks=measurement.checks,
            stages_s=measurement.stages_s,
            controls=measurement.controls or {},
        )
        return report.model_copy(update=found)

    def _controls_of(self, operator: Operator) -> dict[str, float] | None:
        """What the controls of the present batch gave; None if a batch begins."""
        batch = self._batches.get(operator.digest)
        return batch.controls if batch is not None and batch.jobs < JOBS_A_BATCH else None

    def _count_job(self, operator: Operator, measurement: Measurement) -> None:
        self._jobs += 1
        if self._jobs % JOBS_A_SEED == 0:
            self._seeds.clear()
        if measurement.controls is not None:
            known = self._batches.get(operator.digest)
            begun = known.jobs if known is not None and known.controls is measurement.controls else 0
            self._batches[operator.digest] = _Batch(measurement.controls, begun + 1)

    def _seed(self, operator: Operator, shape: str) -> str:
        """The secret of timed content; kept for a while, so that the checker need not evaluate it for every job."""
        return self._seeds.setdefault((operator.digest, shape), secrets.token_hex(SECRET_BYTES))

    def _baselines(self, operator: Operator, graphs: tuple[Graph, ...], pacer: Bundle) -> dict[str, Baseline]:
        return measure_baselines(operator, graphs, pacer, self.device, self.card, self.folder, self.versions())
