"""An executor whose measurements are those of a card on paper: `card_bench.py NOTES RULE KIND …`.

Other kinds are the real one. It notes each measurement, and finds plans wrong by a rule: `none`, or `odd` sizes.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.service import records
from workers.protocol import JOB, ExecutorReady, MeasureJob, Outcome, Report, ShapeResult
from workers.safe_python import PYTHON

OWN_US, EAGER_US = 5.0, 7.0
WRONG: dict[str, Callable[[int], bool]] = {"none": lambda size: False, "odd": lambda size: size % 16 != 0}


def report_on(job: MeasureJob, rule: str) -> Report:
    """What the card finds."""
    timed = [plan.shape.key for plan in job.bundle.benchmarks]
    eager = {"eager": EAGER_US} if job.related else {}
    shapes = tuple(ShapeResult(shape=key, pacer_us=OWN_US, mid_us=OWN_US, baselines_us=eager) for key in timed)
    wrong = any(WRONG[rule](plan.shape.dims["N"]) for plan in job.bundle.plans)
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
        said = "with eager PyTorch" if job.related and job.waits_for_baselines and job.eager_alone else "alone"
        with notes.open("a") as file:
            file.write(f"{len(job.bundle.plans)} plans {said} on {job.device.name}\n")
        sys.stdout.write(report_on(job, rule).model_dump_json() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
