"""Baselines alone: their times at rows of the catalogue beside the first seed, without a search.

    python -m benchmarks.baselines_alone --device h100 --rows attention decode sliding --baselines native
    HELION_AUTOTUNE_BUDGET_SECONDS=60 python -m benchmarks.baselines_alone --device h100 --baselines helion native

Each row is written as soon as it is measured. Helion reads its own variables for effort and budget.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write
from benchmarks.same_verdicts import HERE
from benchmarks.suites import SuiteEntry
from service.evaluation.executor_client import LocalExecutor
from workers.assembler import assemble
from workers.baselines import BaselineProcess, BaselinesFailed, measure_baselines
from workers.baselines.client import library_versions
from workers.protocol import Device, Operator, Shape, TraceJob, TraceReport

ROWS = {
    "attention": SuiteEntry("attention", {"B": 4, "H": 32, "T": 4096, "D": 128}),
    "attention_short": SuiteEntry("attention", {"B": 2, "H": 32, "T": 2048, "D": 128}),
    "attention_narrow": SuiteEntry("attention", {"B": 8, "H": 16, "T": 1024, "D": 64}),
    "decode": SuiteEntry("decode_attention", {"B": 1, "H": 8, "R": 4, "T": 131072, "D": 128}),
    "decode_batch": SuiteEntry("decode_attention", {"B": 16, "H": 8, "R": 4, "T": 8192, "D": 128}),
    "sliding": SuiteEntry("sliding_window_attention", {"B": 1, "H": 32, "T": 4096, "window": 1024, "D": 128}),
    "sliding_narrow": SuiteEntry("sliding_window_attention", {"B": 2, "H": 64, "T": 2048, "window": 128, "D": 64}),
    "rmsnorm": SuiteEntry("rmsnorm", {"M": 4096, "N": 4096}),
    "layernorm": SuiteEntry("layernorm", {"M": 4096, "N": 4096}),
    "softmax": SuiteEntry("softmax", {"M": 4096, "N": 4096}),
    "softmax_wide": SuiteEntry("softmax", {"M": 1024, "N": 32768}),
    "swiglu": SuiteEntry("swiglu", {"M": 8192, "N": 14336}),
    "cross_entropy": SuiteEntry("cross_entropy", {"M": 4096, "V": 32000}),
    "matmul": SuiteEntry("matmul", {"M": 4096, "K": 4096, "N": 4096}),
    "gate_up": SuiteEntry("gate_up_swiglu", {"M": 4096, "K": 4096, "N": 14336}),
}
"""Rows by a short name; those of attention are the anchor suite's and the catalogue's."""


async def traced(tracer: LocalExecutor, operator: Operator, target: str) -> TraceReport:
    """Trace the first seed at an operator's one shape, and export its reference there."""
    shapes = tuple(Shape(dims=shape.dims) for shape in operator.shapes)
    source = operator.seeds[0]
    job = TraceJob(**HERE, operator=operator, source=source, shapes=shapes, target=target, references=True)
    return await tracer.run(job, TraceReport)


async def measured(
    entry: SuiteEntry, baselines: Sequence[str], device: Device, tracer: LocalExecutor, process: BaselineProcess
) -> dict[str, Any]:
    """Measure the baselines of one row; what fails is part of it."""
    begun = time.monotonic()
    operator = Operator.model_validate({**entry.contract(), "baselines": tuple(baselines)})
    report = await traced(tracer, operator, device.target)
    bundle = report.variants[0].bundle if report.variants else None
    row: dict[str, Any] = {"row": entry.key}
    if bundle is None:
        return row | {"reason": report.reason}
    pacer = assemble(bundle, operator).bundle
    try:
        found = await asyncio.to_thread(
            measure_baselines, operator, report.graphs, pacer, device, process.ask, None, {}
        )
    except BaselinesFailed as error:
        return row | {"reason": str(error)}
    (baseline,) = found.values()
    figures = {
        name: {"us": figure.time_us, "over_pacer": figure.over_pacer, "half_width": figure.half_width}
        for name, figure in sorted(baseline.figures.items(), key=lambda item: item[1].over_pacer)
    }
    row |= {"pacer_us": baseline.pacer_us, "fastest": next(iter(figures), None), "figures": figures}
    row |= {"skipped": baseline.skipped, "ready_s": baseline.spent_s, "copy_us": baseline.copy_us}
    return row | {"wall_s": round(time.monotonic() - begun, 1)}


async def run(asked: argparse.Namespace) -> None:
    """Measure the rows, one after the other."""
    device, rows = Device.parse(asked.device), list[dict[str, Any]]()
    tuning = {name: value for name, value in os.environ.items() if name.startswith("HELION_")}
    with closing(BaselineProcess(asked.card)) as process:
        async with LocalExecutor("trace") as tracer:
            for name in asked.rows or ROWS:
                rows.append(await measured(ROWS[name], asked.baselines, device, tracer, process))
                print(rows[-1], flush=True)
                write(asked.name, rows, asked.out, device=device.name, libraries=library_versions(), helion=tuning)


def main() -> None:
    """Measure the chosen rows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", required=True, help="hardware class of the card, such as h100")
    options.add_argument("--card", type=int, default=0, help="number of the card")
    options.add_argument("--rows", nargs="*", choices=tuple(ROWS), default=[], help="rows; all by default")
    options.add_argument("--baselines", nargs="+", default=["native", "helion"], help="baselines besides eager PyTorch")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder of the file")
    options.add_argument("--name", default="baselines_alone", help="name of the file")
    asyncio.run(run(options.parse_args()))


if __name__ == "__main__":
    main()
