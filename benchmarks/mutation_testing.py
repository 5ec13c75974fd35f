"""Mutation testing of every catalogue operator: trivial answers, mutants and right answers against its checks.

Two kinds of false admission are counted. Mutants that the checks find must not be pardoned: had the checks missed them,
they would have to count. And operators made blind, whose results hide what a kernel does, must not be admitted.

python -m benchmarks.mutation_testing [OPERATOR...] [--processes N] [--out FOLDER]
"""

import argparse
import multiprocessing
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.record import RESULTS, write
from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from workers import trace_job
from workers.mutation_testing.equality import is_identical
from workers.mutation_testing.fixture import ShapeFixture
from workers.mutation_testing.runs import cases_of, outputs_of, places_of, verdict_on_survivor
from workers.protocol import MutationReport, Operator, TraceJob, TraceReport

REPEATS = 5
"""Verdicts on each operator, from different values: the gate draws them by the operator's digest, which a comment in
the reference changes."""
WRONG = ("trivial", "mutant")
BLIND: Mapping[str, str] = {
    "too small": "y * 1e-43",
    "lost in an offset": "y * 1e-3 + 1e6",
    "cut off": "y.clamp(1e4, 2e4)",
    "coarse": "(y / 64).round() * 64",
    "barely more than a constant": "y * 1e-9 + 1",
}
"""Ways to hide what an operator computes, as a formula of each float result in float32."""


def traced(spec: Operator) -> TraceReport:
    """The reference of an operator with its report."""
    job = TraceJob(id="gate", search="gate", operator=spec, shapes=all_shapes(spec, 0), target="sm_90")
    return trace_job.trace(job, "benchmark")


def passed(spec: Operator, repeat: int) -> MutationReport:
    """One verdict."""
    changed = spec.model_copy(update={"reference": f"{spec.reference}\n# {repeat}\n"}) if repeat else spec
    gate = traced(changed).gate
    if gate is None:
        raise SystemExit(f"the reference of {spec.name} does not export")
    return gate


def pardoned(spec: Operator, gate: MutationReport) -> list[str]:
    """Names of mutants that the checks find, and that would not count if they did not."""
    killed = {entry.name for entry in gate.entries if entry.verdict == "killed"}
    places = places_of(ShapeFixture.all_of(spec, traced(spec).graphs))
    found = []
    for name in killed & places.keys():
        first = [
            (fixture, graph, case)
            for fixture, graph, case in cases_of(places[name], lambda: False)
            if any(case is each for each in fixture.cases) and not is_identical(outputs_of(graph, case) or (), case)
        ]
        if verdict_on_survivor(first, rounds=places[name][0][1].rounds) != "survived":
            found.append(name)
    return found


def hides(spec: Operator) -> bool:
    """True if formulas of float results can hide what an operator computes."""
    return not spec.backward and all("float" in output.dtype for output in spec.outputs)


def blinded(spec: Operator, formula: str) -> str:
    """The verdict on an operator whose results hide what it computes."""
    source = f"""{spec.reference}

_{spec.entry} = {spec.entry}


def _hide(y):
    return ({formula.replace("y", "y.float()")}).to(y.dtype) if y.is_floating_point() else y


def {spec.entry}({", ".join(item.name for item in (*spec.inputs, *spec.scalars))}):
    found = _{spec.entry}({", ".join(item.name for item in (*spec.inputs, *spec.scalars))})
    return tuple(map(_hide, found)) if isinstance(found, tuple) else _hide(found)
"""
    gate = traced(spec.model_copy(update={"reference": source, "seeds": ()})).gate
    return gate.verdict if gate else "not exported"


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
        "pardoned_of_killed": pardoned(spec, first),
        "blinded": {name: blinded(spec, formula) for name, formula in BLIND.items() if hides(spec)},
        "untried": found["trivial", "untried"] + found["mutant", "untried"],
        "killed_by": dict(Counter(entry.check for entry in first.entries if entry.kind in WRONG and entry.check)),
        "trivial_failures": {
            entry.name: f"{entry.failures} of {entry.cases}" for entry in first.entries if entry.kind == "trivial"
        },
        "processor_s": {"low": seconds[0], "mid": seconds[len(seconds) // 2], "high": seconds[-1]},
    }


def ready() -> None:
    """Prepare a process that traces."""
    torch.set_num_threads(1)
    trace_job.warm()


def named(name: str) -> dict[str, Any]:
    """Row of an operator of the catalogue."""
    return row(load_catalogue()[name])


def main() -> None:
    """Pass every operator through the gate and write `gate.json`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="all of the catalogue if none is named")
    parser.add_argument("--processes", type=int, default=1, help="operators at once; each takes a core")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    names = options.operators or list(load_catalogue())
    rows = []
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, spawned, ready) as pool:
        for found in pool.map(named, names):
            rows.append(found)
            print(found["operator"], found["verdicts"], found["least_kill_rate"], found["processor_s"])
            print("  ", found["pardoned_of_killed"], found["blinded"], flush=True)
    if not options.operators:
        print(write("gate", rows, options.out, repeats=REPEATS))


if __name__ == "__main__":
    main()
