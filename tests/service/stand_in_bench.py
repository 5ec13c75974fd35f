"""A bench that answers as `workbench.Answers` does, and notes its jobs in a file: `stand_in_bench.py NOTES KIND …`."""

import sys
from pathlib import Path

from tests.service import records
from tests.service.workbench import Answers, bundle_of
from workers.protocol import JOB, ExecutorReady, TraceJob

REFUSED = "# does not compile"
"""Part of a source that comes to no bundle."""


def main() -> None:
    notes = Path(sys.argv[1])
    seed = records.bundle_from(records.SEED).identity
    answers = Answers(
        bundle=lambda source: None if REFUSED in source else records.bundle_from(source),
        speedup=lambda job: 2.0 if job.pacer else 1.0,
        time_us=lambda bundle: 12.5 if bundle == seed else 10.0,
    )
    with notes.open("a") as file:
        file.write(" ".join(sys.argv[2:]) + "\n")
    sys.stdout.write(ExecutorReady(jail="none").model_dump_json() + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        job = JOB.validate_json(line)
        if not isinstance(job, TraceJob):
            pacer = job.pacer.identity if job.pacer else None
            with notes.open("a") as file:
                file.write(f"{bundle_of(job).identity} beside {pacer} within {job.deadline_s:g}\n")
        sys.stdout.write(answers.to(job).model_dump_json() + "\n")
        sys.stdout.flush()


main()
