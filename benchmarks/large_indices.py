"""Indices beyond 2^31: sums of the rows of a matrix with more elements than that, by one kernel right and one wrong.

    python -m benchmarks.large_indices --out results

Both are judged like any candidate, at small shapes and at one of 4.6 GB. The wrong one counts in 32 bits, which is all
right everywhere else. A row a kernel: the outcome, whether it was expected, times, seconds by stage.
"""

import argparse
import time
from pathlib import Path

from benchmarks.card import Row, over_pacer
from benchmarks.figures import FigureRows, device_of
from service.operators.shapes import all_shapes
from tests.gpu.benches import TRACE, Served, answers, measuring
from tests.gpu.contracts import SHAPES_SEED
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    BenchmarkShape,
    CardShare,
    Device,
    Input,
    MeasureJob,
    Operator,
    Outcome,
    Output,
    Report,
    TraceJob,
    TraceReport,
)

ROWS, COLUMNS = 32768, 70000
"""2.29e9 elements: the last 2,089 rows begin where 32 bits with a sign do not reach."""
REFERENCE = """
import torch

def row_sums(x):
    return x.sum(-1, dtype=torch.float32)
"""
KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def sums(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0){wide}
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(total, axis=0))

def row_sums(x):
    y = torch.empty((x.shape[0],), device=x.device, dtype=torch.float32)
    sums[(x.shape[0],)](x, y, x.shape[1], BLOCK=2048, num_warps=8)
    return y
"""
SOURCES = {"wide": KERNEL.format(wide=".to(tl.int64)"), "narrow": KERNEL.format(wide="")}
EXPECTED = {
    "wide": {Outcome.CORRECT},
    "narrow": {Outcome.WRONG_RESULT, Outcome.DEVICE_FAULT, Outcome.PRECISION},
}
"""Outcomes on a card. On a `model` device, which runs small shapes only, both are right."""


def contract() -> Operator:
    """Row sums, timed at one large shape."""
    return Operator(
        name="row_sums",
        entry="row_sums",
        reference=REFERENCE,
        inputs=(Input(name="x", shape=("M", "N"), dtype="bfloat16"),),
        outputs=(Output(name="y", dtype="float32"),),
        shapes=(BenchmarkShape(dims={"M": ROWS, "N": COLUMNS}),),
        ranges={"M": (1, 4096), "N": (1, 8192)},
        seeds=(SOURCES["wide"],),
    )


def traced(operator: Operator, target: str) -> dict[str, TraceReport]:
    """The reference and both kernels, by name.

    Raises:
        SystemExit: If one of them cannot be traced.
    """
    jobs = {
        name: TraceJob(
            id=name,
            search="beyond",
            candidate=name,
            source=source,
            operator=operator,
            shapes=all_shapes(operator, SHAPES_SEED),
            target=target,
            deadline_s=120.0,
        )
        for name, source in {"reference": None, **SOURCES}.items()
    }
    found: dict[str, TraceReport] = {}
    for name, answer in answers(jobs, TRACE):
        if not isinstance(answer, TraceReport) or answer.outcome is not Outcome.CORRECT:
            raise SystemExit(f"{name} cannot be traced: {answer}"[:1000])
        found[name] = answer
    return found


def row_of(name: str, answer: Answer, wall_s: float) -> Row:
    """Return the row of one kernel."""
    row: Row = {"kernel": name, "expected": sorted(EXPECTED[name]), "wall_s": wall_s}
    if not isinstance(answer, Report):
        return {**row, "outcome": "failure", "as_expected": False, "reason": getattr(answer, "error", answer.kind)}
    return {
        **row,
        "outcome": answer.outcome.value,
        "as_expected": answer.outcome in EXPECTED[name],
        "reason": answer.reason,
        "stage": answer.stage,
        "shapes": [
            {"shape": item.shape, "pacer_us": item.pacer_us, "over": over_pacer(item)} for item in answer.shapes
        ],
        "controls": answer.controls,
        "stages_s": answer.stages_s,
    }


def main() -> None:
    """Judge both and write `beyond.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--device", type=Device.parse, help="instead of the card's; `model:sm_90` tries the script")
    chosen = options.parse_args()
    device = chosen.device or device_of(chosen.card)
    operator = contract()
    reports = traced(operator, device.target)
    pacer = reports["wide"].variants[0].bundle
    figures = FigureRows(chosen.out, "beyond", chosen.card)
    with Served(measuring(device, CardShare(chosen.card)), MEASURED_DEADLINE_S) as bench:
        for name, source in SOURCES.items():
            bundle = reports[name].variants[0].bundle
            paced = device.measures and pacer is not None and name != "wide"
            job = MeasureJob(
                id=name,
                search="beyond",
                candidate=name,
                variant=0,
                bundle=bundle,
                operator=operator,
                graphs=reports["reference"].graphs,
                device=device,
                source=None if device.measures else source,
                pacer=pacer.reduced() if paced and pacer is not None else None,
                related=False,
                deadline_s=MEASURED_DEADLINE_S,
            )
            started = time.perf_counter()
            row = row_of(name, bench.ask(job), time.perf_counter() - started)
            figures.add(row, f"{name} {row['outcome']} {row['as_expected']} {row['reason'][:160]}")


if __name__ == "__main__":
    main()
