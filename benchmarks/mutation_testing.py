"""Mutation testing of every catalogue operator: trivial answers, mutants and right answers against its checks.

python -m benchmarks.mutation_testing
"""

from collections import Counter
from typing import Any

import torch

from benchmarks.record import write
from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from workers import trace_job
from workers.protocol import MutationReport, Operator, TraceJob

REPEATS = 5
"""Verdicts on each operator, from different values: the gate draws them by the operator's digest, which a comment in
the reference changes."""
WRONG = ("trivial", "mutant")


def passed(spec: Operator, repeat: int) -> MutationReport:
    """One verdict."""
    changed = spec.model_copy(update={"reference": f"{spec.reference}\n# {repeat}\n"}) if repeat else spec
    job = TraceJob(id="gate", search="gate", operator=changed, shapes=all_shapes(changed, 0), target="sm_90")
    gate = trace_job.trace(job, "benchmark").gate
    if gate is None:
        raise SystemExit(f"the reference of {spec.name} does not export")
    return gate


def row(spec: Operator) -> dict[str, Any]:
    """An operator's verdicts: of the first repeat in full, of all in their worst."""
    gates = [passed(spec, repeat) for repeat in range(REPEATS)]
    first = gates[0]
    found = Counter((entry.kind, entry.verdict) for entry in first.entries)
    seconds = sorted(gate.seconds for gate in gates)
    return {
        "operator": spec.name,
        "verdicts": [gate.verdict for gate in gates],
        "least_kill_rate": min(gate.kill_rate or 0.0 for gate in gates),
        "most_right_rejected": max(sum(entry.verdict == "rejected" for entry in gate.entries) for gate in gates),
        "shapes": first.shapes,
        "right_passed": found["honest", "passed"],
        "trivial_killed": found["trivial", "killed"],
        "mutants_killed": found["mutant", "killed"],
        "survived": [entry.name for entry in first.entries if entry.verdict == "survived"],
        "equivalent": [entry.name for entry in first.entries if entry.verdict == "equivalent"],
        "within_rounding": [entry.name for entry in first.entries if entry.verdict == "within_rounding"],
        "untried": found["trivial", "untried"] + found["mutant", "untried"],
        "killed_by": dict(Counter(entry.check for entry in first.entries if entry.kind in WRONG and entry.check)),
        "trivial_failures": {
            entry.name: f"{entry.failures} of {entry.cases}" for entry in first.entries if entry.kind == "trivial"
        },
        "processor_s": {"low": seconds[0], "mid": seconds[len(seconds) // 2], "high": seconds[-1]},
    }


def main() -> None:
    """Pass every operator through the gate and write `results/gate.json`."""
    torch.set_num_threads(1)
    trace_job.warm()
    rows = []
    for spec in load_catalogue().values():
        rows.append(row(spec))
        print(rows[-1]["operator"], rows[-1]["verdicts"], rows[-1]["least_kill_rate"], rows[-1]["processor_s"])
    print(write("gate", rows, repeats=REPEATS))


if __name__ == "__main__":
    main()
