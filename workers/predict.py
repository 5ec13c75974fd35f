"""The time of a plan, predicted from its readings and the target's sheet, for devices that do not measure.

It tells better plans from worse ones on a machine without a GPU. It is no measurement. Its constants were fitted to
252 kernels of all operators of the catalogue (seeds, rewritings, tunings, styles written by hand), at two shapes each.
These were judged on an H200 on 2026-11-23, with readings of `workers.assembler` and counts of the interpreter of
`model`. Errors on other kernels are in docs/results/model-device.md. Other targets use the same constants, unmeasured.

The time of a plan is the sum of its launches, a start for each of its steps, and the bytes that fills and copies move.
The terms of a launch, each in seconds, combine in a norm between their sum and their maximum:

    memory    bytes from DRAM at the bandwidth that the loads in flight can draw, the rest from L2
    issue     instructions by class, those of innermost loops once per iteration that moves the program's bytes;
              or operations on elements as the interpreter counts them, if these take longer
    matrix    operations of the matrix units at the rate of the instructions used
    latency   a round trip to memory for each wave of programs and each iteration of their loops, and its barriers
    dispatch  programs, which the device starts one after the other
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log10

from workers.protocol import LaunchReadings, Readings
from workers.targets import Target

START_US = 1.8
"""Microseconds per additional kernel of a graph (fitted)."""
DRAM_SHARE = 0.93
"""Maximum share of DRAM's peak bandwidth (fitted; a plain copy got 0.89 of an H200's, a plain read 0.91)."""
HALF_LATENCY_S = 1.85e-8
"""Bytes in flight that achieve half of the bandwidth, as seconds of it (fitted)."""
THREAD_BYTES = 23
"""Maximum bytes that one thread keeps in flight (fitted)."""
L2_RATIO = 4.7
"""Bandwidth of L2 over that of DRAM (fitted; above `DRAM_SHARE`, so that more required bytes never look faster)."""
ISSUE_RATIO = 1.1
"""Instructions of the assembly text that one scheduler retires per cycle (fitted; ptxas merges some)."""
ISSUE_WARPS = 6.2
"""Resident warps that keep a multiprocessor's schedulers busy (fitted; two for each of the four would be eight)."""
ROUND_TRIP_S = 7.4e-7
"""Seconds of one dependent trip to memory under load (fitted)."""
BARRIER_S = 4.5e-8
"""Seconds that the programs of a wave wait at one of their barriers (fitted)."""
DISPATCH_S = 6.0e-10
"""Seconds from the start of one program to that of the next (fitted: a clock of the device). 131,072 programs of one
warp each take at least 82 us."""
SPILL_CYCLES = 30.0
"""Issue cycles of one spilled word (fitted; stands for the traffic too)."""
SPILL_LOOPED = 0.57
"""Share of a looping kernel's spills that are inside its loops (fitted; the text does not tell)."""
MATRIX_SHARE = {"none": 1.0, "mma": 0.15, "wgmma": 0.74}
"""Share of the peak matrix rate that each kind of instruction reaches in Triton's code (fitted on sm_90)."""
NORM = 3.7
"""Exponent of the norm that combines the terms: 1 is their sum, infinity their maximum."""
DIGITS = 3
"""Significant digits of a prediction; the fit does not justify more."""

OPERATION_CYCLES = 1.2
"""Cycles of a scheduler for each float operation of a warp that the interpreter counts (fitted)."""
ISSUE_CYCLES = {
    "load_global": 4,
    "store_global": 4,
    "load_shared": 4,
    "store_shared": 4,
    "atomic": 16,
    "matrix": 0,
    "float": 1,
    "special": 8,
    "integer": 1,
    "convert": 1,
    "branch": 2,
    "barrier": 8,
    "other": 1,
}
"""Cycles of a scheduler per instruction, by class.

From the throughput table of the CUDA programming guide, compute capability 9.0: per cycle 128 float operations, 16
special functions or 32 addresses. `matrix` has a term of its own. Atomics, branches and barriers are estimates.
"""

_SCHEDULERS = 4
_DEFAULT_OCCUPANCY = 0.5
# If the readings have none.


def predict_us(readings: Readings, target: Target, *, other_steps: int = 0, other_bytes: int = 0) -> float:
    """Predict the time of one call of a plan in a graph with inputs out of cache, microseconds, three digits.

    Never shorter for more bytes, more spills, a repeated launch, lower occupancy or narrower loads.

    Args:
        readings: Readings of the plan.
        target: Sheet of its target.
        other_steps: Number of its fills and copies.
        other_bytes: Bytes that they read and write.
    """
    required = float(readings.bytes_required or 0)
    drawn = target.dram_bytes_per_s * DRAM_SHARE
    start_us = START_US * (readings.launches + other_steps)
    if not readings.by_launch:
        return _round(start_us + max(required, other_bytes) / drawn * 1e6)
    start_us += other_bytes / drawn * 1e6
    total = max(required, readings.bytes_moved or 0)
    threads = sum(launch.programs * launch.num_warps for launch in readings.by_launch)
    found_s = 0.0
    for number, launch in enumerate(readings.by_launch):
        share = launch.programs * launch.num_warps / max(1, threads)
        moved = total * share if launch.bytes_moved is None else float(launch.bytes_moved)
        found_s += _launch_s(launch, target, moved, _from_dram(moved, required, number, target))
    return _round(start_us + found_s * 1e6)


def _from_dram(moved: float, required: float, number: int, target: Target) -> float:
    """Return the bytes that a launch moves from or to DRAM: at most all that must be read or written.

    Data of an earlier launch is in the cache as far as it fits.
    """
    cached = max(0.0, 1 - required / target.l2_bytes) if number else 0.0
    return min(moved, required) * (1 - cached)


def _launch_s(launch: LaunchReadings, target: Target, moved: float, from_dram: float) -> float:
    shape = _Shape.of(launch, target)
    turns = max(1.0, moved / launch.turn_bytes) if launch.turn_bytes else 1.0
    terms = (
        _memory_s(launch, target, shape, from_dram, moved),
        _issue_s(launch, target, shape, turns),
        _matrix_s(launch, target, shape),
        shape.waves * (turns * ROUND_TRIP_S + _barriers(launch, shape) * BARRIER_S),
        launch.programs * DISPATCH_S,
    )
    return float(sum(term**NORM for term in terms) ** (1 / NORM))


def _barriers(launch: LaunchReadings, shape: "_Shape") -> float:
    """Return the number of barriers of a program: those of the text times the repetitions of its float operations."""
    written = launch.instructions.get("float", 0) * shape.programs * shape.threads
    again = launch.operations.get("float", 0) / written if written else 1.0
    return launch.instructions.get("barrier", 0) * max(1.0, again)


@dataclass(frozen=True)
class _Shape:
    """Placement of a launch on the device: programs, how many run at once, and in how many waves."""

    programs: int
    warps: int
    threads: int
    active: int
    waves: int

    @classmethod
    def of(cls, launch: LaunchReadings, target: Target) -> "_Shape":
        warps = max(1, launch.num_warps)
        threads = warps * target.warp_size
        occupancy = _DEFAULT_OCCUPANCY if launch.occupancy is None else launch.occupancy
        resident = max(1, round(occupancy * target.threads_sm / threads)) * target.sms
        programs = max(1, launch.programs)
        return cls(programs, warps, threads, min(programs, resident), ceil(programs / resident))


def _memory_s(launch: LaunchReadings, target: Target, shape: _Shape, from_dram: float, moved: float) -> float:
    loads = max(1, launch.instructions.get("load_global", 0))
    in_flight = shape.active * shape.threads * min(THREAD_BYTES, loads * max(1, launch.load_width_bytes or 0))
    half = target.dram_bytes_per_s * HALF_LATENCY_S
    drawn = target.dram_bytes_per_s * DRAM_SHARE * in_flight / (in_flight + half)
    return from_dram / drawn + max(0.0, moved - from_dram) / (target.dram_bytes_per_s * L2_RATIO)


def _issue_s(launch: LaunchReadings, target: Target, shape: _Shape, turns: float) -> float:
    """Return the time of the text's instructions or of the counted operations, whichever is longer."""
    spilled = SPILL_CYCLES * (launch.spill_bytes or 0) / 4
    once = _cycles(launch.instructions) + spilled
    again = _cycles(launch.looped) + spilled * SPILL_LOOPED
    written = shape.programs * shape.warps * (once + (turns - 1) * again)
    counted = OPERATION_CYCLES * _cycles(launch.operations) / target.warp_size
    busy = min(1.0, shape.active * shape.warps / target.sms / ISSUE_WARPS)
    rate = min(target.sms, shape.programs) * _SCHEDULERS * target.clock_mhz * 1e6 * ISSUE_RATIO * busy
    return max(written, counted) / rate


def _cycles(instructions: Mapping[str, int]) -> int:
    return sum(ISSUE_CYCLES.get(name, 1) * count for name, count in instructions.items())


def _matrix_s(launch: LaunchReadings, target: Target, shape: _Shape) -> float:
    unit = launch.tensor_core or "none"
    peak = target.fp32_flops if unit == "none" else target.matrix_flops
    return launch.operations.get("matrix", 0) / (peak * MATRIX_SHARE[unit] * min(1.0, shape.programs / target.sms))


def _round(time_us: float) -> float:
    return round(time_us, DIGITS - 1 - floor(log10(time_us))) if time_us > 0 else 0.0
