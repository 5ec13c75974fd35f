"""Device `cuda`: judges variants by replaying their plans on a card. Every figure is measured.

The executor that holds this device never opens the card itself: its card processes do.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog
import torch

from workers import driver, sandbox
from workers.baselines import BackgroundBaselines, Baseline, BaselineProcess
from workers.checks import CHECKS, Check
from workers.devices.assembling import Assemblers
from workers.devices.base import DeviceBench
from workers.devices.card_processes import CardProcesses
from workers.devices.controls import CONFIRM_S, ControlBatches
from workers.devices.ending import JudgementEnded
from workers.devices.examination import Examination
from workers.devices.measurement import Measurement, MeasurementContext
from workers.devices.profiling import CardProfile, read_plan
from workers.devices.trial import CheckDepth
from workers.driver_tool import maximum_clocks
from workers.errors import BadMessage, ToolMissing
from workers.profiler import find_nsight
from workers.protocol import (
    FIRST_CARD,
    Bundle,
    CardShare,
    ConfirmJob,
    Device,
    FinalJob,
    Graph,
    MeasureJob,
    Operator,
    Plan,
    ProfileJob,
    ProfileReport,
    Provenance,
    Report,
    TrustGrounds,
    label,
)
from workers.sanitizer import find_sanitizer
from workers.targets import TARGETS, shown_figures

PAIRS = 16
"""Pairs per shape for a variant: half a per cent at a per-pair deviation of 1 % (evaluation protocol 3.3)."""
BRIEF_PAIRS = 4
"""Pairs per shape of a brief measurement: the fewest that have an interval."""
Job = MeasureJob | ConfirmJob | FinalJob

log = structlog.get_logger(__name__)


class CudaDevice(DeviceBench):
    """Judges variants on one card of this machine.

    Every job raises `BadMessage` if its bundle is for another target, and `CardFailed` if the card or a process that
    uses it failed.
    """

    kind = "cuda"
    provenance = Provenance.MEASURED
    confirms = True

    def __init__(
        self,
        device: Device,
        worker: str,
        seat: CardShare = FIRST_CARD,
        folder: Path | None = None,
        checks: Mapping[str, Check] = CHECKS,
    ) -> None:
        """Start the card processes. Baselines are kept in `folder`.

        Raises:
            ToolMissing: If the card is of another class, or a package that measuring needs is not here.
            CardFailed: If it cannot be opened.
        """
        super().__init__(device, worker, seat, folder, checks)
        require_packages(torch.version.cuda)
        self._target = device.target
        self._batches = ControlBatches()
        self._assemblers = Assemblers()
        self._versions = {name: version(name) for name in ("torch", "triton", "kernelreef")}
        self._processes = CardProcesses.at(seat, TARGETS[self._target], checks, self._assemblers.spread)
        self._beside = BackgroundBaselines(BaselineProcess(seat.card), device, folder, self._processes.rest)
        sheet = self._processes.sheet
        if sheet.device_class != device.name:
            self._processes.close()
            raise ToolMissing(f"card {seat.card} is '{sheet.name}', not {device.name}")
        self._sheet = maximum_clocks(self._processes.opened.address).added_to(sheet)
        figures = TARGETS[self._target].of_card(self._sheet)
        self._setting = MeasurementContext(self._processes, self._assemblers, figures, self._baselines)

    @property
    def spent_s(self) -> dict[str, float]:
        """Seconds of waiting for the card processes so far, by kind of command; `turns` for the GPU lock."""
        return {**self._processes.spent_s, "turns": self._processes.gpu_lock.waited_s}

    def versions(self) -> dict[str, str]:
        """Return versions of everything that influences a figure."""
        return {**self._versions, **self._processes.opened.versions}

    def measure(self, job: MeasureJob) -> Report:
        """Check the variant and time it against the pacer."""
        return self._measured(job, BRIEF_PAIRS if job.eager_alone else PAIRS, CheckDepth.USUAL, related=job.related)

    def measure_briefly(self, job: MeasureJob) -> Report:
        """Measure with the minimum number of pairs, to record thousands of variants in minutes.

        Benchmark plans are checked by every output of their timed runs, the others by runs of their own. The times are
        those of the timing alone; a variant measured this way cannot hold a cell.
        """
        return self._measured(job, BRIEF_PAIRS, CheckDepth.BRIEF, related=False)

    def confirm(self, job: ConfirmJob) -> Report:
        """Check the challenger again, time it against the pacer, then against the incumbent until it is clear who wins.

        Large plans too are checked on all draws, so that every holder of a cell has passed them. Both timings run on
        fresh content, so that no result in the archive can come from a memory that outlasts a job. The controls, whose
        plans are trusted, get their usual content; those of the last minute need not run again.
        """
        measurement = Measurement(
            job.operator,
            job.graphs,
            job.challenger,
            job.pacer,
            self._setting,
            fresh=True,
            scrutiny=CheckDepth.THOROUGH,
            controls=self._batches.controls(job.operator.digest, CONFIRM_S),
        )
        return self._judge(job, measurement, PAIRS, job.incumbent)

    def examine(self, job: FinalJob) -> Report:
        """Run the finalist on random shapes and under the sanitizer."""
        examination = Examination(job, self._setting, find_sanitizer(), self.seat.card)
        report = self._report(job, job.bundle)
        found: dict[str, object] = {}
        try:
            self._processes.with_memory(job.operator.digest, examination.run)
        except JudgementEnded as ended:
            found |= ended.found
        finally:
            self._processes.settle()
        grounds = report.grounds.model_copy(update={"sanitised": examination.sanitised}) if report.grounds else None
        found |= {"checks": examination.results(), "stages_s": examination.stages_s, "grounds": grounds}
        return report.model_copy(update=found)

    def profile(self, job: ProfileJob) -> ProfileReport:
        """Time the plan and its launches, time a copy of its bytes, and count where the vendor's profiler may."""
        figures = shown_figures(self._target, self._sheet)
        read = read_plan(job, figures, self._assemblers.start(job.bundle))
        profile = CardProfile(job, read, self._processes, self.seat.card, find_nsight(), self._copy_us)
        try:
            found = self._processes.with_memory(job.operator.digest, lambda: profile.run(self.versions()))
        finally:
            self._processes.settle()
        return found.model_copy(update={"card": self._sheet})

    def foresee(self, bundle: Bundle) -> None:
        """Start assembling its kernels."""
        self._assemblers.start(bundle)

    def rest(self) -> None:
        """Give up the card's memory if others wait for it."""
        self._processes.rest()

    def is_prepared(self, bundle: Bundle) -> bool:
        """Return True if its kernels are assembled."""
        return self._assemblers.is_done(bundle)

    def close(self) -> None:
        """End the card processes, the assemblers and the process that measures baselines."""
        self._processes.close()
        self._beside.close()
        self._assemblers.close()

    def _measured(self, job: MeasureJob, pairs: int, scrutiny: CheckDepth, *, related: bool) -> Report:
        baselines = partial(self._baselines, eager_alone=job.eager_alone)
        measurement = Measurement(
            job.operator,
            job.graphs,
            job.bundle,
            job.pacer,
            replace(self._setting, baselines=baselines),
            related=related,
            waits=job.waits_for_baselines,
            scrutiny=scrutiny,
            controls=self._batches.controls(job.operator.digest),
        )
        return self._judge(job, measurement, pairs)

    def _judge(self, job: Job, measurement: Measurement, pairs: int, incumbent: Bundle | None = None) -> Report:
        report, before = self._report(job, measurement.bundle), self.spent_s
        found: dict[str, object] = {}
        try:
            found |= self._processes.with_memory(job.operator.digest, lambda: measurement.run(pairs, incumbent))
        except JudgementEnded as ended:
            found |= ended.found
        finally:
            self._processes.settle()
        spent = {name: round(seconds - before.get(name, 0.0), 3) for name, seconds in self.spent_s.items()}
        log.debug("waited for the card's processes", job=job.id, kind=job.kind, **spent)
        self._batches.count(job.operator.digest, measurement.controls)
        # A failed control, or clocks that disagree, are internal failures without a report.
        grounds = report.grounds.model_copy(update={"agreed": bool(measurement.controls)}) if report.grounds else None
        found |= {"grounds": grounds, "trust": label(grounds)[0] if grounds else None}
        found |= {"checks": measurement.checks, "stages_s": measurement.stages_s}
        return report.model_copy(update={**found, "controls": measurement.controls or {}})

    def _report(self, job: Job, bundle: Bundle) -> Report:
        """Return a report without findings."""
        if bundle.target != self._target:
            raise BadMessage(f"{self.device.name} runs {self._target}; job {job.id} is for {bundle.target}")
        grounds = TrustGrounds(jail=sandbox.probe(), replayed=True, measured=True, agreed=False)
        return self._blank(job, grounds).model_copy(update={"card": self._sheet})

    def _copy_us(self, operator: Operator, bundle: Bundle, plan: Plan) -> float | None:
        return self._beside.copy_us(operator, bundle, plan, self.versions())

    def _baselines(
        self,
        operator: Operator,
        graphs: tuple[Graph, ...],
        pacer: Bundle,
        wait: bool,
        *,
        eager_alone: bool = False,
    ) -> dict[str, Baseline]:
        begins = self._beside.begin(operator, graphs, pacer, self.versions(), again=wait, eager_alone=eager_alone)
        if begins and wait:  # Otherwise answers would fill the memory again long before it is used.
            self._processes.make_room()
        return self._beside.find(operator, pacer, wait=wait, eager_alone=eager_alone)


def require_packages(torch_cuda: str | None) -> None:
    """Require the packages that card processes need: their own errors would name a library, and no remedy.

    Args:
        torch_cuda: Version of CUDA that torch was built with; None for a build without CUDA.

    Raises:
        ToolMissing: If one is not here; says how to install it.
    """
    driver.require_bindings()
    if torch_cuda is None:
        raise ToolMissing(f"torch {version('torch')} is a build without CUDA: install one from https://pytorch.org")
