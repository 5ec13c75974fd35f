"""The time of a plan, predicted from its readings and the target's sheet, for devices that measure nothing.

What it is for: telling better plans from worse ones on a machine without a GPU. What it is not: a measurement. Its
constants were fitted to 283 kernels of fourteen operators of the catalogue (seeds, rewritings, tunings, styles written
by hand), at two shapes each, judged on an H200 on 2026-11-23, with readings as `workers.assembler` gives them and the
traffic that `model` samples. What `benchmarks/results` says of it, and of operators that it was not fitted to, is in
docs/results.md. For other targets the constants are carried over unmeasured.

The terms, each in seconds, meet in a norm between their sum and their maximum:

    memory    required bytes from DRAM at the bandwidth that the loads in flight can draw, the rest from L2
    issue     instructions by class, those of innermost loops as often as programs go through them to move their bytes
    matrix    operations of the matrix units at the rate of the instructions used
    latency   a round trip to memory for each wave of programs and each turn of their loops
    dispatch  programs, which the device starts one after the other

and every launch, fill or copy costs its start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, log10

from workers.protocol import Readings
from workers.targets import Target

START_US = 2.2
"""Microseconds that one more kernel of a graph costs (fitted)."""
DRAM_SHARE = 0.93
"""Most of the peak bandwidth that DRAM gives (fitted; a plain copy got 0.89 of an H200's, a plain read 0.91)."""
HALF_LATENCY_S = 1.8e-8
"""Bytes in flight that draw half of the bandwidth, as seconds of it (fitted)."""
THREAD_BYTES = 24
"""Most bytes that one thread keeps in flight (fitted)."""
L2_RATIO = 4.2
"""Bandwidth of L2 over that of DRAM (fitted; above `DRAM_SHARE`, so that more required bytes never look faster)."""
ISSUE_RATIO = 1.23
"""Instructions of the assembly text that one scheduler retires a cycle (fitted; ptxas merges some)."""
ISSUE_WARPS = 7
"""Resident warps that keep a multiprocessor's schedulers busy (fitted; two for each of the four would be eight)."""
ROUND_TRIP_S = 7.7e-7
"""Seconds of one dependent trip to memory under load (fitted)."""
DISPATCH_S = 6.0e-10
"""Seconds from the start of one program to that of the next (fitted: a clock of the device; 131,072 programs of one
warp each take 82 us, however little they do)."""
SPILL_CYCLES = 24.0
"""Issue cycles of one spilled word (fitted; stands for the traffic too)."""
SPILL_LOOPED = 0.55
"""Share of a looping kernel's spills that stand inside its loops (fitted; the text does not say)."""
MATRIX_SHARE = {"none": 1.0, "mma": 0.17, "wgmma": 0.51}
"""Share of the peak matrix rate that each kind of instruction reaches in Triton's code (fitted on sm_90)."""
NORM = 3.3
"""Exponent with which the terms meet: 1 is their sum, infinity their maximum."""
DIGITS = 3
"""Significant digits of a prediction: more would claim what the fit does not hold."""

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
"""Cycles of a scheduler that an instruction of a class takes.

After the throughput table of the CUDA programming guide, compute capability 9.0, against 128 float operations a cycle:
16 special functions and 32 addresses; `matrix` has a term of its own; atomics, branches and barriers by judgement.
"""

_SCHEDULERS = 4
_DEFAULT_OCCUPANCY = 0.5
# Where readings leave it out.


@dataclass(frozen=True)
class Work:
    """What is known of a plan beyond its readings.

    Attributes:
        matrix_flops: Operations that the reference spends in matrix products; 0 if it has none or they are not known.
        moved_ratio: Bytes moved for each byte required, as the interpreter counted at another shape; used where the
            readings do not say what is moved.
        other_steps: Fills and copies of the plan.
    """

    matrix_flops: float = 0.0
    moved_ratio: float = 1.0
    other_steps: int = 0


def predict_us(readings: Readings, target: Target, work: Work | None = None) -> float:
    """Predict the time of one call of a plan in a graph with inputs out of cache, microseconds, three digits.

    Never shorter for more bytes, more spills, a repeated launch, lower occupancy or narrower loads.
    """
    work = work or Work()
    start_us = START_US * (readings.launches + work.other_steps)
    required = float(readings.bytes_required or 0)
    if not readings.launches:
        return _round(start_us + required / (target.dram_bytes_per_s * DRAM_SHARE) * 1e6)
    moved = max(required, readings.bytes_moved or required * work.moved_ratio)
    shape = _Shape.of(readings, target)
    turns = max(1.0, moved / readings.turn_bytes) if readings.turn_bytes else 1.0
    terms = (
        _memory_s(readings, target, shape, required, moved),
        _issue_s(readings, target, shape, turns),
        _matrix_s(readings, target, shape, work.matrix_flops),
        readings.launches * shape.waves * turns * ROUND_TRIP_S,
        readings.programs * DISPATCH_S,
    )
    return _round(start_us + sum(term**NORM for term in terms) ** (1 / NORM) * 1e6)


@dataclass(frozen=True)
class _Shape:
    """How a launch lies on the device: programs, how many run at once, and in how many waves."""

    programs: float
    threads: int
    active: float
    waves: int

    @classmethod
    def of(cls, readings: Readings, target: Target) -> "_Shape":
        threads = max(1, readings.num_warps) * target.warp_size
        occupancy = _DEFAULT_OCCUPANCY if readings.occupancy is None else readings.occupancy
        resident = max(1, round(occupancy * target.threads_sm / threads)) * target.sms
        programs = max(1.0, readings.programs / readings.launches)
        return cls(programs, threads, min(programs, resident), ceil(programs / resident))


def _memory_s(readings: Readings, target: Target, shape: _Shape, required: float, moved: float) -> float:
    loads = max(1.0, readings.instructions.get("load_global", 0) / readings.launches)
    in_flight = shape.active * shape.threads * min(THREAD_BYTES, loads * max(1, readings.load_width_bytes or 0))
    half = target.dram_bytes_per_s * HALF_LATENCY_S
    drawn = target.dram_bytes_per_s * DRAM_SHARE * in_flight / (in_flight + half)
    return required / drawn + (moved - required) / (target.dram_bytes_per_s * L2_RATIO)


def _issue_s(readings: Readings, target: Target, shape: _Shape, turns: float) -> float:
    spilled = SPILL_CYCLES * (readings.spill_bytes or 0) / 4
    once = _cycles(readings.instructions) + spilled
    again = _cycles(readings.looped) + spilled * SPILL_LOOPED
    warps = shape.threads // target.warp_size
    busy = min(1.0, shape.active * warps / target.sms / ISSUE_WARPS)
    rate = min(target.sms, shape.programs) * _SCHEDULERS * target.clock_mhz * 1e6 * ISSUE_RATIO * busy
    return shape.programs * warps * (once + (turns - 1) * again) / rate


def _cycles(instructions: Mapping[str, int]) -> int:
    return sum(ISSUE_CYCLES.get(name, 1) * count for name, count in instructions.items())


def _matrix_s(readings: Readings, target: Target, shape: _Shape, flops: float) -> float:
    unit = readings.tensor_core or "none"
    peak = target.fp32_flops if unit == "none" else target.matrix_flops
    return flops / (peak * MATRIX_SHARE[unit] * min(1.0, shape.programs / target.sms))


def _round(time_us: float) -> float:
    return round(time_us, DIGITS - 1 - floor(log10(time_us))) if time_us > 0 else 0.0
