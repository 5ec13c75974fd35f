"""An executor whose measurements are those of a card on paper: `card_bench.py NOTES RULE KIND …`.

Other kinds are the real one. It notes each measurement, and finds plans wrong by a rule: `none`, `odd` sizes, or odd
sizes `later`, after the first measurement. By the rule `turns` PyTorch is faster from some size on. By the rule
`blocks` it is faster up to some size than a kernel with blocks of 256, but not than one with larger blocks.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.service import records
from workers.protocol import JOB, ExecutorReady, MeasureJob, Outcome, Plan, Report, ShapeResult
from workers.safe_python import PYTHON

OWN_US, EAGER_US = 5.0, 7.0
TURNS = 400
"""Size from which PyTorch is faster by the rules `turns` and `later`."""
SLOW_UP_TO, SLOW_US, LARGE_US = 100, 50.0, 6.0
"""Size up to which blocks of 256 are slow by the rule `blocks`, their time there, and that of larger blocks."""
WRONG: dict[str, Callable[[int, int], bool]] = {
    "none": lambda size, earlier: False,
    "odd": lambda size, earlier: size % 16 != 0,
    "turns": lambda size, earlier: False,
    "later": lambda size, earlier: size % 16 != 0 and earlier > 0,
    "blocks": lambda size, earlier: False,
}


def result(plan: Plan, job: MeasureJob, rule: str) -> ShapeResult:
    """What the card times."""
    size, own_us = plan.shape.dims["N"], OWN_US
    if rule in ("turns", "later"):
        own_us = EAGER_US * size / TURNS
    elif rule == "blocks" and plan.launches[0].constants["BLOCK"] != 256:
        own_us = LARGE_US
    elif rule == "blocks" and size <= SLOW_UP_TO:
        own_us = SLOW_US
    eager = {"eager": EAGER_US} if job.related else {}
    return ShapeResult(shape=plan.shape.key, pacer_us=own_us, mid_us=own_us, baselines_us=eager)


def report_on(job: MeasureJob, rule: str, earlier: int) -> Report:
    """What the card finds, after some earlier measurements."""
    shapes = tuple(result(plan, job, rule) for plan in job.bundle.benchmarks)
    wrong = any(WRONG[rule](plan.shape.dims["N"], earlier) for plan in job.bundle.plans)
    found = {"outcome": Outcome.WRONG_RESULT, "reason": "it is odd", "shapes": ()} if wrong else {"shapes": shapes}
    told = {"device": job.device, "bundle": job.bundle.identity, "job": job.id, **found}
    return records.report({}).model_copy(update=told)


def main() -> None:
    notes, rule, kind = Path(sys.argv[1]), *sys.argv[2:4]
    if kind != "measure":
        os.execv(PYTHON[0], [*PYTHON, "-m", "workers", "bench", *sys.argv[3:]])
    sys.stdout.write(ExecutorReady(jail="none").model_dump_json() + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        job = JOB.validate_json(line)
        assert isinstance(job, MeasureJob) and job.bundle.benchmarks, "every measurement on a card times something"
        earlier = len(notes.read_text().splitlines()) if notes.exists() else 0
        said = "with eager PyTorch" if job.related and job.waits_for_baselines and job.eager_alone else "alone"
        with notes.open("a") as file:
            file.write(f"{len(job.bundle.plans)} plans {said} on {job.device.name}\n")
        sys.stdout.write(report_on(job, rule, earlier).model_dump_json() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
