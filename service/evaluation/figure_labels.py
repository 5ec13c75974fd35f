"""Labels for the figures of a device: measured, predicted or recorded, and relative to what."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from workers.protocol import PROTOCOL_VERSION, Device, Outcome, Report

Provenance = Literal["measured", "predicted", "recorded"]

_PROVENANCE: Mapping[str, Provenance] = {"cuda": "measured", "model": "predicted", "recorded": "recorded"}
Standing = Literal["passed", "failed", "not possible"]


class FinalistResult(BaseModel):
    """Result of a finalist's examination: its standing, and what was found or could not be examined."""

    model_config = ConfigDict(frozen=True)

    standing: Standing
    reason: str

    @classmethod
    def of(cls, report: Report) -> "FinalistResult":
        """Summarise a final report."""
        if report.outcome is Outcome.WORKER_LOST:
            return cls(standing="not possible", reason=report.reason)
        if report.outcome is not Outcome.CORRECT:
            return cls(standing="failed", reason=f"{report.outcome}: {report.reason}")
        passed = any(check.verdict == "passed" for check in report.checks)
        missing = [f"no {check.name}: {check.detail}" for check in report.checks if check.verdict == "skipped"]
        return cls(standing="passed" if passed else "not possible", reason="; ".join(missing))


def provenance(device: str) -> Provenance:
    """Return the source of a device's times; shown beside every figure, so that no reader mixes them up."""
    return _PROVENANCE[Device.parse(device).kind]


def outdated(protocol_version: int | None) -> bool:
    """Return True if a report was made under another protocol version: its checks differ, so it is never reused."""
    return protocol_version not in (None, PROTOCOL_VERSION)


def relative_to(device: str) -> str:
    """Name the denominator of speedups on a device."""
    return "best baseline" if Device.parse(device).measures else "seed kernel"


def in_words(device: str) -> str:
    """Describe the figures of a device for a caption."""
    known = Device.parse(device)
    if known.kind == "model":
        return f"PREDICTED for {known.subject}, relative to the seed kernel; nothing was measured"
    if known.kind == "recorded":
        return f"RECORDED on {known.subject}, relative to the seed kernel"
    return f"MEASURED on {known.name}, relative to the best baseline of each shape"


def best_baselines(report: Report) -> dict[str, str]:
    """Map each benchmark shape to its fastest baseline, which measured speedups are relative to."""
    return {
        result.shape: min(result.baselines_us, key=lambda name: result.baselines_us[name])
        for result in report.shapes
        if result.baselines_us
    }
