"""Drafts and rules on a device: the verdict and the speedup of what TorchInductor and each rule make of the catalogue.

A row for each operator and form: its seed, TorchInductor's draft, and every rule that applies to the seed (after those
in `PREPARED`). On a card the speedups are measured over the best baseline; on `model` they are predicted, relative to
the seed.

    python -m benchmarks.drafts_and_rules --device h200 --out /tmp/forms
"""

import argparse
import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import FigureRows, TimeAllowance
from service.emitters.rules import RULES
from service.evaluation.executor_client import LocalExecutor
from service.evaluation.jobs import DRAFT_S
from service.evaluation.single import Judge, Judgement
from service.operators.catalogue import catalogue_names, load_operator
from service.operators.shapes import all_shapes
from workers.protocol import Device, Operator, TraceJob, TraceReport

PREPARED = {
    "hoist_load": ("persistent",),
    "pipeline_pieces": ("persistent",),
    "warp_specialize": ("tensor_descriptors", "tensor_descriptors"),
    "whole_row": ("chunk_row",),
    "online_sum": ("chunk_row",),
}
"""What must have been done to a seed before a rule applies to it."""


def forms(operator: Operator, draft: str) -> Iterator[tuple[str, str]]:
    """Sources to judge, by name."""
    seed = operator.seeds[0]
    yield "seed", seed
    if draft:
        yield "draft", draft
    for name in RULES:
        source: str | None = seed
        for step in (*PREPARED.get(name, ()), name):
            source = RULES[step].rewrite(source, random.Random(1)) if source else None
        if source:
            yield name, source


async def drafted(operator: Operator, target: str) -> TraceReport:
    """What TorchInductor writes."""
    job = TraceJob(
        id="forms",
        search="forms",
        operator=operator,
        shapes=all_shapes(operator, seed=0),
        target=target,
        drafts=True,
        deadline_s=DRAFT_S,
    )
    async with LocalExecutor("trace") as bench:
        return await bench.run(job, TraceReport)


def row(operator: str, form: str, verdict: Judgement) -> dict[str, object]:
    """One form's verdict."""
    speedup = verdict.best.speedup if verdict.best else None
    return {
        "operator": operator,
        "form": form,
        "device": verdict.device.name,
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "low": speedup.low if speedup else None,
        "mid": speedup.mid if speedup else None,
        "high": speedup.high if speedup else None,
    }


async def run(names: list[str], device: Device, figures: FigureRows, allowance: TimeAllowance) -> None:
    """Judge every form of the operators, until the time is over."""
    for name in names:
        operator = load_operator(name)
        report = await drafted(operator, device.target)
        async with Judge(operator, device) as judge:
            for form, source in forms(operator, report.draft):
                if allowance.spent:
                    return
                found = row(name, form, await judge.judge(source))
                figures.add(found, f"{name} {form}: {found['outcome']} {found['mid'] or found['reason']}")


def main() -> None:
    """Run and write `<out>/forms.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--operators", default=",".join(catalogue_names()))
    options.add_argument("--device", type=Device.parse, default=Device.parse("model:sm_90"))
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--limit-s", type=float, default=540.0)
    chosen = options.parse_args()
    figures, allowance = FigureRows(chosen.out, "forms"), TimeAllowance(chosen.limit_s)
    asyncio.run(run(chosen.operators.split(","), chosen.device, figures, allowance))


if __name__ == "__main__":
    main()
