"""Recordings as a trace bench asks them: a source to the bundles that it led to when it was recorded.

Nothing is compiled. The bundles hold no kernels; they say which recorded bundle they stand for, and the device that
serves the recording finds its figures by that.
"""

from pathlib import Path

from workers.landscape import Landscape, RecordedSource, RecordedVariant, contract_digest, read, text_digest
from workers.protocol import (
    Bundle,
    Device,
    Operator,
    Outcome,
    Plan,
    Readings,
    Stage,
    TracedVariant,
    TraceJob,
    TraceReport,
)

SHIPPED = Path(__file__).parent.parent / "operators" / "landscapes"
"""Recordings that come with the catalogue: a folder a hardware class, in it a file an operator."""
NOTHING_READ = Readings(launches=0, programs=0, programs_per_sm=0.0, num_warps=0)
"""Stands where a shape was not recorded, in a list that has a place for every shape. No axis looks at those shapes."""


class Recordings:
    """The recordings of one device, read when they are first asked for.

    Args:
        device: Such as `recorded:h200`.
        folder: Where there may be other recordings than those that are shipped; they come first.
    """

    def __init__(self, device: Device, folder: Path | None = None) -> None:
        self._device = device
        self._folders = [root / device.subject for root in (folder and folder / "landscapes", SHIPPED) if root]
        self._read: dict[str, Landscape | None] = {}

    def of(self, operator: Operator) -> Landscape | None:
        """Return the recording of an operator; None if there is none, or only one of another operator of the same name.

        Raises:
            ToolMissing: If the file is no recording.
        """
        contract = contract_digest(operator)
        if contract not in self._read:
            names = [f"{operator.name}.jsonl", f"{operator.name}.jsonl.gz"]
            paths = [path for folder in self._folders for name in names if (path := folder / name).is_file()]
            found = (read(path) for path in paths)
            self._read[contract] = next((item for item in found if self._serves(item, contract)), None)
        return self._read[contract]

    def trace(self, job: TraceJob, source: str, worker: str) -> TraceReport:
        """Return the recorded result of tracing a source; `not_recorded` if there is none.

        Raises:
            ToolMissing: If the file is no recording.
        """
        landscape = self.of(job.operator)
        found = None if landscape is None else _look_up(landscape, source)
        report = TraceReport(
            job=job.id,
            search=job.search,
            candidate=job.candidate,
            worker=worker,
            outcome=Outcome.NOT_RECORDED,
            reason=f"{self._device.name} holds no kernel with this text",
            stage=Stage.TRACE,
        )
        if landscape is None or found is None:
            missing = f"there is no recording of '{job.operator.name}' as it is defined here for {self._device.name}"
            return report if landscape is not None else report.model_copy(update={"reason": missing})
        variants = tuple(_variant(landscape, variant, job) for variant in found.variants)
        told = {"outcome": found.outcome, "reason": found.reason, "stage": found.stage, "line": found.line}
        return report.model_copy(update={**told, "versions": landscape.sessions[-1].versions, "variants": variants})

    def _serves(self, landscape: Landscape, contract: str) -> bool:
        return all(
            session.contract == contract and session.device.measures and session.device.subject == self._device.subject
            for session in landscape.sessions
        )


def _look_up(landscape: Landscape, source: str) -> RecordedSource | None:
    try:
        return landscape.sources.get(text_digest(source))
    except SyntaxError:
        return None


def _variant(landscape: Landscape, variant: RecordedVariant, job: TraceJob) -> TracedVariant:
    recorded = landscape.bundles.get(variant.bundle or "")
    if variant.bundle is not None and recorded is None:
        reason = "the recording ended before this kernel was measured"
        return TracedVariant(index=variant.index, outcome=Outcome.NOT_RECORDED, reason=reason, stage=Stage.TRACE)
    if recorded is None:
        return TracedVariant(index=variant.index, outcome=variant.outcome, reason=variant.reason, stage=Stage.TRACE)
    bundle = Bundle(
        target=job.target,
        operator=job.operator.digest,
        configuration=variant.configuration,
        kernels={},
        plans=tuple(Plan(shape=shape, buffers=(), steps=(), outputs=()) for shape in job.shapes),
        recorded=recorded.identity,
    )
    readings = tuple(recorded.readings.get(shape.key, NOTHING_READ) for shape in job.shapes)
    return TracedVariant(index=variant.index, outcome=Outcome.CORRECT, bundle=bundle, readings=readings)
