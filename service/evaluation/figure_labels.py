"""Labels for the figures of a device: measured, predicted or recorded, and relative to what."""

from collections.abc import Mapping

from archive.records import MeasuredBaselines, SearchRecord
from kernelreef.models import FinalistResult, Provenance
from workers.protocol import PROTOCOL_VERSION, Device, Outcome, Readings, Report
from workers.targets import Target

_PROVENANCE: Mapping[str, Provenance] = {"cuda": "measured", "model": "predicted", "recorded": "recorded"}

BEST_BASELINE, SEED_KERNEL = "best baseline", "seed kernel"
"""Denominators of speedups."""
LAUNCH_US = 2.5
"""Microseconds that one kernel of a graph costs by itself, from the fit of the prediction."""
BOUND_SHARE = 0.5
"""Share of a kernel's time that one cause has to explain before the kernel counts as bound by it."""
MATRIX_UNITS = ("mma", "wgmma")


def stamp_of(report: Report | None) -> FinalistResult:
    """Summarise a finalist's report: its standing, the findings, and what could not be examined; None has no report."""
    if report is None:
        return FinalistResult(standing="unexamined", reason="")
    if report.outcome is Outcome.WORKER_LOST:
        return FinalistResult(standing="not possible", reason=report.reason)
    if report.outcome is not Outcome.CORRECT:
        return FinalistResult(standing="failed", reason=f"{report.outcome}: {report.reason}")
    passed = any(check.verdict == "passed" for check in report.checks)
    missing = [f"no {check.name}: {check.detail}" for check in report.checks if check.verdict == "skipped"]
    return FinalistResult(standing="passed" if passed else "not possible", reason="; ".join(missing))


def provenance(device: str) -> Provenance:
    """Return the source of a device's times; shown beside every figure, so that no reader mixes them up."""
    return _PROVENANCE[Device.parse(device).kind]


def outdated(protocol_version: int | None) -> bool:
    """Return True if a report was made under another protocol version: its checks differ, so it is never reused."""
    return protocol_version not in (None, PROTOCOL_VERSION)


def relative_to(device: str, search: SearchRecord | None = None) -> str:
    """Name the denominator of speedups on a device.

    Args:
        device: The device.
        search: Search whose figures they are: before its baselines are measured, they are over the seed kernel. None
            for figures that are never shown without baselines.
    """
    if not Device.parse(device).measures:
        return SEED_KERNEL
    found = None if search is None else search.baselines.get(device, MeasuredBaselines(reason="not measured yet"))
    return SEED_KERNEL if found is not None and found.reason else BEST_BASELINE


def in_words(device: str, base: str = "") -> str:
    """Describe the figures of a device for a caption.

    Args:
        device: The device.
        base: Result of `relative_to` for the search; empty for figures that are never shown without baselines.
    """
    known = Device.parse(device)
    if known.kind == "model":
        return f"PREDICTED for {known.subject}, relative to the seed kernel; nothing was measured"
    if known.kind == "recorded":
        return f"RECORDED on {known.subject}, relative to the seed kernel"
    if base == SEED_KERNEL:
        return f"MEASURED on {known.name}, relative to the seed kernel; no baseline is measured yet"
    return f"MEASURED on {known.name}, relative to the best baseline of each shape"


def best_baselines(report: Report) -> dict[str, str]:
    """Map each benchmark shape to its fastest baseline, which measured speedups are relative to."""
    return {
        result.shape: min(result.baselines_us, key=lambda name: result.baselines_us[name])
        for result in report.shapes
        if result.baselines_us
    }


def occupancy_limiter(readings: Readings, target: Target) -> str:
    """Name the resource that limits the resident programs of a multiprocessor; empty if the readings do not tell.

    Registers are allotted in units of 8 per thread, shared memory with 1 KiB per program (CUDA programming guide).
    """
    if not readings.num_warps or readings.registers is None or readings.shared_bytes is None:
        return ""
    threads = readings.num_warps * target.warp_size
    allotted = max(8, -(-readings.registers // 8) * 8) * threads
    most = {
        "the number of programs in the grid": max(1, -(-readings.programs // target.sms)),
        "registers": target.registers_sm // allotted,
        "shared memory": target.shared_sm_bytes // (readings.shared_bytes + 1024),
        "threads": target.threads_sm // threads,
        "the number of programs": target.blocks_sm,
    }
    return min(most, key=lambda name: most[name])


def bottleneck(readings: Readings, target: Target, time_us: float) -> str:
    """Bottleneck of a kernel at one shape: `memory`, `compute` or `latency`.

    Memory if the bytes it has to move take half of its time at the peak bandwidth. Latency if its launches alone take
    half of it, or if it has fewer programs than the device has processors. Compute otherwise: the matrix units or the
    instructions are what is left. A kernel on matrix units is never bound by latency for having few programs.

    Args:
        readings: Readings of the shape's plan.
        target: Target that it was compiled for.
        time_us: Time at that shape, microseconds.
    """
    memory_us = (readings.bytes_required or 0) / target.dram_bytes_per_s * 1e6
    if memory_us >= BOUND_SHARE * time_us:
        return "memory"
    idle = readings.programs_per_sm < 1 and readings.tensor_core not in MATRIX_UNITS
    if idle or readings.launches * LAUNCH_US >= BOUND_SHARE * time_us:
        return "latency"
    return "compute"
