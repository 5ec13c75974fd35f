"""The time of a plan, predicted from its readings and the target's sheet, for devices that measure nothing.

What it is for: telling better plans from worse ones on a machine without a GPU. What it is not: a measurement. Its
constants were fitted to 460 Triton kernels of eleven families (row and loop reductions, elementwise, persistent,
two-launch, matrix multiplication) timed on an H200 on 2026-11-21, as CUDA graphs over inputs out of cache, with
readings as `workers.assembler` gives them and the bytes they move known. On halves it was not fitted to, the
predicted time was off by 11 to 12% in the median and 18% on average. It ranked all 460 with a Spearman correlation of
0.98, and the configurations of one problem with 0.5 to 0.9. Without the bytes moved it was off by 13% in the median,
by 35% for matrix multiplications, which it then ranks poorly (0.5). For other targets the constants are carried over
unmeasured.

The terms, each in seconds, meet in a norm between their sum and their maximum:

    memory    required bytes from DRAM at the bandwidth that the loads in flight can draw, the rest from L2
    issue     instructions by class, as often as programs must loop to move their bytes
    matrix    operations of the matrix units at the rate of the instructions used
    latency   a round trip to memory for each wave of programs and each turn of their loops

and every launch, fill or copy costs its start.
"""

from dataclasses import dataclass
from math import ceil, floor, log10

from workers.protocol import Readings
from workers.targets import Target

START_US = 2.5
"""Microseconds that one more kernel of a graph costs (fitted)."""
DRAM_SHARE = 0.93
"""Most of the peak bandwidth that DRAM gives (fitted; a plain copy got 0.89 of an H200's, a plain read 0.91)."""
HALF_LATENCY_S = 1.6e-7
"""Bytes in flight that draw half of the bandwidth, as seconds of it (fitted)."""
THREAD_BYTES = 64
"""Most bytes that one thread keeps in flight (fitted)."""
L2_RATIO = 3.1
"""Bandwidth of L2 over that of DRAM (fitted; above `DRAM_SHARE`, so that more required bytes never look faster)."""
ISSUE_RATIO = 1.24
"""Instructions of the assembly text that one scheduler retires a cycle (fitted; ptxas merges some)."""
ISSUE_WARPS = 8
"""Resident warps that keep a multiprocessor's schedulers busy: two for each of the four."""
LOOPED_SHARE = 0.62
"""Share of a looping kernel's instructions that stand inside its loops (fitted)."""
ROUND_TRIP_S = 1.06e-6
"""Seconds of one dependent trip to memory under load (fitted)."""
SPILL_CYCLES = 27.0
"""Issue cycles of one spilled word (fitted; stands for the traffic too)."""
MATRIX_SHARE = {"none": 1.0, "mma": 0.28, "wgmma": 0.84}
"""Share of the peak matrix rate that each kind of instruction reaches in Triton's code (fitted on sm_90)."""
NORM = 3.0
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
    turns = _turns(readings, shape, moved)
    terms = (
        _memory_s(readings, target, shape, required, moved),
        _issue_s(readings, target, shape, turns),
        _matrix_s(readings, target, shape, work.matrix_flops),
        readings.launches * shape.waves * turns * ROUND_TRIP_S,
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


def _turns(readings: Readings, shape: _Shape, moved: float) -> float:
    """How often a program goes through its loads and stores to move its share of the bytes; at least once."""
    accesses = readings.instructions.get("load_global", 0) + readings.instructions.get("store_global", 0)
    a_turn = accesses * max(1, readings.load_width_bytes or 0) * shape.threads * shape.programs
    return max(1.0, moved / a_turn) if a_turn else 1.0


def _memory_s(readings: Readings, target: Target, shape: _Shape, required: float, moved: float) -> float:
    loads = max(1.0, readings.instructions.get("load_global", 0) / readings.launches)
    in_flight = shape.active * shape.threads * min(THREAD_BYTES, loads * max(1, readings.load_width_bytes or 0))
    half = target.dram_bytes_per_s * HALF_LATENCY_S
    drawn = target.dram_bytes_per_s * DRAM_SHARE * in_flight / (in_flight + half)
    return required / drawn + (moved - required) / (target.dram_bytes_per_s * L2_RATIO)


def _issue_s(readings: Readings, target: Target, shape: _Shape, turns: float) -> float:
    cycles = SPILL_CYCLES * (readings.spill_bytes or 0) / 4
    cycles += sum(ISSUE_CYCLES.get(name, 1) * count for name, count in readings.instructions.items())
    repeated = 1 + (turns - 1) * LOOPED_SHARE
    warps = shape.threads // target.warp_size
    busy = min(1.0, shape.active * warps / target.sms / ISSUE_WARPS)
    rate = min(target.sms, shape.programs) * _SCHEDULERS * target.clock_mhz * 1e6 * ISSUE_RATIO * busy
    return shape.programs * warps * repeated * cycles / rate


def _matrix_s(readings: Readings, target: Target, shape: _Shape, flops: float) -> float:
    unit = readings.tensor_core or "none"
    peak = target.fp32_flops if unit == "none" else target.matrix_flops
    return flops / (peak * MATRIX_SHARE[unit] * min(1.0, shape.programs / target.sms))


def _round(time_us: float) -> float:
    return round(time_us, DIGITS - 1 - floor(log10(time_us))) if time_us > 0 else 0.0
