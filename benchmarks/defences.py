"""Cost of each defence: microseconds on the card, seconds per candidate, and candidates per hour.

    python -m benchmarks.defences --out results --operators rmsnorm,softmax --minutes 6

`kernels`: microseconds of what is done about one call besides the call itself, at an operator's first benchmark shape,
and about one candidate. `orders`: seconds of one candidate, the operator's seed, in each order to the processes that
use the card. `checks`: the same candidate before a judge that lacks one check of the table, as the tests of the rogues
have it; no setting leaves one out. Every row is in the file as soon as it is known.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from math import prod
from pathlib import Path

import torch

from benchmarks.figures import FigureRows, Row, TimeAllowance, device_of
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest
from tests.gpu.judging import measure_job, trace_all
from tests.gpu.runner.card import on_card
from workers.checks import CHECKS
from workers.device_kernels import SupportKernel, assign_content, compile_support, timed_content, zone_seed
from workers.devices import DEVICES
from workers.devices.base import DeviceBench
from workers.devices.card_processes import ARENA_SHARE
from workers.driver import address_of
from workers.errors import WorkerError
from workers.gpu_lock import GpuLock
from workers.memory_layout import SMALL_ZONE_BYTES
from workers.oracle import compile_oracle
from workers.oracle.answers import FloatAnswer
from workers.oracle.card import CudaOracleCard
from workers.protocol import CardShare, Device, MeasureJob, Operator, Outcome, Shape
from workers.runner.arena import Arena
from workers.targets import TARGETS

PARTS = ("kernels", "orders", "checks")
TURNS = 20
"""Times that everything is done."""
WARM = 3
"""Times before that which do not count."""
SEED = "5eed" * 8


def spread_of(values: Sequence[float]) -> Row:
    """Median and 90th percentile."""
    return {"median": statistics.median(values), "p90": sorted(values)[9 * (len(values) - 1) // 10]}


def kernel_times_us(
    index: int, kernels: Mapping[str, SupportKernel], operator: Operator, shape: Shape, arena_bytes: int
) -> dict[str, Row]:
    """Microseconds of the defences of one call, and of the two that come once a candidate. Opens the card."""
    with closing(GpuLock(address_of(index))) as turns, turns.exclusive():
        return _kernel_times_us(CudaOracleCard(index, kernels), operator, shape, arena_bytes)


def _kernel_times_us(card: CudaOracleCard, operator: Operator, shape: Shape, arena_bytes: int) -> dict[str, Row]:
    arena = Arena.allocate(arena_bytes)
    card._arena, support, stream = arena, card._support, torch.cuda.current_stream().cuda_stream
    inputs = [
        torch.empty(operator.input_shape(item, shape.dims), dtype=getattr(torch, item.dtype), device=card.device)
        for item in operator.given
    ]
    pointers = [tensor.data_ptr() for tensor in inputs]
    jobs = assign_content(timed_content(operator, shape), SEED, 0, pointers)
    output = torch.zeros_like(inputs[0])
    pieces = len(inputs) + 1
    zones = [(4 * SMALL_ZONE_BYTES * number, SMALL_ZONE_BYTES) for number in range(pieces + 1)]
    columns = output.shape[-1]
    rows = prod(output.shape) // columns
    ones = torch.ones(rows, device=card.device)
    values = torch.zeros((rows, columns), device=card.device)
    answer = FloatAnswer(
        (output.dtype, output.shape), values, ones, ones, ones, 0.0, torch.stack([ones, ones]), 1.0, widened=False
    )
    seed64 = zone_seed(SEED)
    work: dict[str, Callable[[], object]] = {
        "refill inputs": lambda: support.fill_content(stream, jobs),
        "poison outputs": lambda: support.poison(stream, [(output.data_ptr(), output.nbytes)]),
        "flush the cache": lambda: support.flush(stream),
        "write red zones": lambda: support.zones_fill(stream, arena.pointer, zones, seed64),
        "look at red zones": lambda: support.zones_count(stream, arena.pointer, zones, seed64),
        "add up inputs": lambda: card.sums([pointers], [tensor.nbytes for tensor in inputs], 1),
        "measure the output": lambda: card.margins([output], [answer]),
        "overwrite the arena": lambda: support.poison(stream, [(arena.pointer, arena.bytes)]),
        "look at idle memory": lambda: card.is_poisoned([(0, arena.bytes)]),  # As it was just overwritten.
    }
    return {name: spread_of(_times_us(each)) for name, each in work.items()}


def _times_us(work: Callable[[], object]) -> list[float]:
    """Microseconds by events around what is enqueued, the host's waiting included where it waits."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(WARM + TURNS)]
    for start, stop in events:
        torch.cuda.synchronize()
        start.record()
        work()
        stop.record()
    torch.cuda.synchronize()
    return [1e3 * start.elapsed_time(stop) for start, stop in events[WARM:]]


def judge(bench: DeviceBench, job: MeasureJob, turns: int, allowance: TimeAllowance) -> tuple[list[float], list[Row]]:
    """Judge a candidate again and again; seconds each, and of which stage. The first time, with controls, is left out.

    Raises:
        WorkerError: If it cannot be judged, or is not correct.
    """
    seconds, stages = [], []
    for turn in range(turns + 1):
        started = time.perf_counter()
        report = bench.measure(job)
        if report.outcome is not Outcome.CORRECT:
            raise WorkerError(f"an honest kernel is refused: {report.reason}")
        if turn:
            seconds.append(time.perf_counter() - started)
            stages.append(dict(report.stages_s))
        if turn > WARM and allowance.spent:
            break
    return seconds, stages


def orders(bench: DeviceBench, job: MeasureJob, allowance: TimeAllowance) -> Row:
    """Seconds of a candidate by order, and by stage."""
    judge(bench, job, WARM, allowance)
    before = bench.spent_s
    seconds, stages = judge(bench, job, TURNS, allowance)
    after = bench.spent_s
    by_order = {name: (spent - before.get(name, 0.0)) / (len(seconds) + 1) for name, spent in after.items()}
    names = sorted({name for row in stages for name in row})
    by_stage = {name: statistics.median(row.get(name, 0.0) for row in stages) for name in names}
    return {"judged": len(seconds), **_pace(seconds), "mean_by_order_s": by_order, "median_by_stage_s": by_stage}


def _pace(seconds: Sequence[float]) -> Row:
    return {"seconds": spread_of(seconds), "an_hour": 3600 / statistics.fmean(seconds)}


def without(job: MeasureJob, left_out: str | None, card: int, allowance: TimeAllowance) -> Row:
    """A candidate before a judge that lacks a check; all are there if None."""
    checks = {name: check for name, check in CHECKS.items() if name != left_out}
    bench = DEVICES[job.device.kind](job.device, "defences", CardShare(card), None, checks)
    try:
        judge(bench, job, WARM, allowance)
        seconds, _ = judge(bench, job, TURNS, allowance)
        return {"left_out": left_out, "judged": len(seconds), **_pace(seconds)}
    except WorkerError as error:
        return {"left_out": left_out, "reason": f"{type(error).__name__}: {error}"}
    finally:
        bench.close()


def main() -> None:
    """Make `defences.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--operators", default="rmsnorm", help="names with commas, whose seeds are judged")
    options.add_argument("--minutes", type=float, default=6.0, help="after which nothing more is begun")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--device", type=Device.parse, help="instead of the card's; `model:sm_90` tries the script")
    chosen = options.parse_args()
    device = chosen.device or device_of(chosen.card)
    allowance = TimeAllowance(60 * chosen.minutes)
    figures = FigureRows(chosen.out, "defences", chosen.card)
    sheet = TARGETS[device.target]
    names = chosen.operators.split(",")
    if "kernels" in chosen.parts and device.measures:
        compiled = {**compile_support(sheet.name), **compile_oracle(sheet.name)}
        for name in names:
            shape = Shape(dims=operators()[name].shapes[0].dims)
            arena_bytes = sheet.memory_bytes // ARENA_SHARE
            found = on_card(kernel_times_us, chosen.card, compiled, operators()[name], shape, arena_bytes)
            row = {"part": "kernels", "operator": name, "shape": shape.key, "us": found}
            figures.add(row, f"{name} { ({key: round(each['median'], 1) for key, each in found.items()}) }")
    traces = trace_all([Honest(f"{name}/seed", name, operators()[name].seeds[0]) for name in names], sheet.name)
    for name in names:
        seed = Honest(f"{name}/seed", name, operators()[name].seeds[0])
        job = measure_job(seed, next(traces.variants(seed.name)), traces, device)
        if "orders" in chosen.parts and not allowance.spent:
            bench = DEVICES[device.kind](device, "defences", CardShare(chosen.card), None, CHECKS)
            try:
                row = {"part": "orders", "operator": name, **orders(bench, job, allowance)}
            finally:
                bench.close()
            figures.add(row, f"{name} {row['an_hour']:.0f} an hour {row['mean_by_order_s']}")
        for left_out in (None, *CHECKS, None) if "checks" in chosen.parts else ():
            if not allowance.spent:
                row = {"part": "checks", "operator": name, **without(job, left_out, chosen.card, allowance)}
                figures.add(row, f"{name} without {left_out}: {row.get('seconds', row.get('reason'))}")


if __name__ == "__main__":
    main()
