"""Baselines alone: their times at rows of the catalogue beside a known kernel, without a search.

    python -m benchmarks.baselines_alone --device h100 --rows attention decode sliding --baselines native
    HELION_AUTOTUNE_BUDGET_SECONDS=60 python -m benchmarks.baselines_alone --device h100 --baselines helion native
    python -m benchmarks.baselines_alone --device h200 --kernels benchmarks/results/anchor.json --row-s 90 --limit-s 580

The kernel is the first seed, or that of the row in `--kernels`. Each row is written as soon as it is measured; a run
with the same file goes on with the rows that it lacks, and begins none for which `--row-s` are not left. Helion reads
its own variables: HELION_AUTOTUNE_EFFORT, `quick` if it is not set, and HELION_AUTOTUNE_BUDGET_SECONDS. Rows tell both;
one row may stand in the file once per effort and budget.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write
from benchmarks.same_verdicts import HERE
from benchmarks.suites import SuiteEntry
from service.evaluation.executor_client import LocalExecutor
from workers.assembler import assemble
from workers.baselines import BaselineProcess, BaselinesFailed, measure_baselines
from workers.baselines.client import EFFORT, TUNING_S, library_versions
from workers.protocol import Bundle, Device, Operator, Shape, TraceJob, TraceReport

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

HELION = "helion"
"""Name of Helion's baseline, and of the field of a row that tells how it was tuned."""
UNCACHED = {"HELION_SKIP_CACHE": "1"}
"""Variables of the process of baselines. Helion stores a shape's choice on the host, under a key without effort and
budget: a run after another one would find the first one's choice, and tune nothing."""

Kernel = tuple[str, Mapping[str, object]]
"""Source of a kernel, and the configuration that was chosen for it."""


async def traced(tracer: LocalExecutor, operator: Operator, source: str, target: str) -> TraceReport:
    """Trace a kernel at an operator's one shape, and export its reference there."""
    shapes = tuple(Shape(dims=shape.dims) for shape in operator.shapes)
    job = TraceJob(**HERE, operator=operator, source=source, shapes=shapes, target=target, references=True)
    return await tracer.run(job, TraceReport)


def chosen(report: TraceReport, configuration: Mapping[str, object]) -> Bundle | None:
    """Return the variant of a configuration, or the first one; None if nothing was compiled."""
    bundles = [variant.bundle for variant in report.variants if variant.bundle is not None]
    same = (bundle for bundle in bundles if bundle.configuration == configuration)
    return next(same, bundles[0] if bundles else None)


def known_kernels(path: Path | None) -> dict[str, Kernel]:
    """Read the kernels of a file of searches, by key of the row."""
    rows = [] if path is None else json.loads(path.read_text())["rows"]
    return {row["row"]: (row["source"], row.get("configuration") or {}) for row in rows if row.get("source")}


async def measured(
    entry: SuiteEntry,
    baselines: Sequence[str],
    device: Device,
    tracer: LocalExecutor,
    process: BaselineProcess,
    kernel: Kernel | None = None,
) -> dict[str, Any]:
    """Measure the baselines of one row beside a kernel, the first seed if none is given; what fails is part of it."""
    begun = time.monotonic()
    operator = Operator.model_validate({**entry.contract(), "baselines": tuple(baselines)})
    source, configuration = kernel or (operator.seeds[0], {})
    report = await traced(tracer, operator, source, device.target)
    bundle = chosen(report, configuration)
    row: dict[str, Any] = {"row": entry.key, "beside": "the first seed" if kernel is None else "a known kernel"}
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
    return row | {"wall_s": round(time.monotonic() - begun, 1), "date": datetime.now(UTC).date().isoformat()}


def tuning(baselines: Sequence[str]) -> dict[str, Any]:
    """Return the part of a row that tells effort and budget in seconds of Helion; empty if it is no baseline."""
    return {HELION: {"effort": EFFORT, "budget_s": int(TUNING_S)}} if HELION in baselines else {}


async def run(asked: argparse.Namespace) -> None:
    """Measure the rows that the file lacks, one after the other, as long as there is time for another one."""
    device, until = Device.parse(asked.device), time.monotonic() + asked.limit_s
    path, kernels = asked.out / f"{asked.name}.json", known_kernels(asked.kernels)
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in rows if row.get("figures")]
    tuned = tuning(asked.baselines)
    known = {row["row"] for row in rows if row.get(HELION) == tuned.get(HELION)}
    with closing(BaselineProcess(asked.card, UNCACHED)) as process:
        async with LocalExecutor("trace") as tracer:
            for name in asked.rows or ROWS:
                entry = ROWS[name]
                if entry.key in known:
                    continue
                if until - time.monotonic() < asked.row_s:
                    print(f"{entry.key}: no time is left for it", flush=True)
                    break
                row = await measured(entry, asked.baselines, device, tracer, process, kernels.get(entry.key))
                rows.append(row | tuned)
                print(rows[-1], flush=True)
                write(asked.name, rows, asked.out, device=device.name, libraries=library_versions())


def main() -> None:
    """Measure the chosen rows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", required=True, help="hardware class of the card, such as h100")
    options.add_argument("--card", type=int, default=0, help="number of the card")
    options.add_argument("--rows", nargs="*", choices=tuple(ROWS), default=[], help="rows; all by default")
    options.add_argument("--baselines", nargs="+", default=["native", "helion"], help="baselines besides eager PyTorch")
    options.add_argument("--kernels", type=Path, help="a file of searches, whose kernels take the place of seeds")
    options.add_argument("--row-s", type=float, default=0.0, help="seconds that must be left for another row")
    options.add_argument("--limit-s", type=float, default=3600.0, help="seconds for all rows")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder of the file")
    options.add_argument("--name", default="baselines_alone", help="name of the file")
    asyncio.run(run(options.parse_args()))


if __name__ == "__main__":
    main()
