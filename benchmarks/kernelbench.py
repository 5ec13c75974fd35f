"""KernelBench's problems: imported, exported, drafted, admitted by mutation testing, correct on `model`.

python -m benchmarks.kernelbench PATH --levels 1,2                  # everything that needs no card
python -m benchmarks.kernelbench PATH --stages import,export        # less of it
python -m benchmarks.kernelbench PATH --stages import,export,seed,gate --prepared prepared

PATH is the folder with `level1` and `level2` of a checkout of KernelBench. A run goes on where an earlier one
ended: what the result, or the file beside it of a run that was interrupted, says already is not found out again. The
same holds for what `kernelbench_prepare` found with the same code, in the folder `--prepared`.
"""

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.figures import read_lines
from benchmarks.kernelbench_lot import key_of
from benchmarks.kernelbench_prepare import DEFAULT, GATE, NO_SEED, NOT_PREPARED, PREPARED
from benchmarks.record import RESULTS, write
from service.cli.import_ import problem_files
from service.cli.new import read_problem
from service.errors import InvalidInput, ServiceError
from service.evaluation.jobs import DRAFT_S
from service.evaluation.single import Judge
from service.fleet.kernelbench import NO_RANGE, narrowed_by
from service.operators.catalogue import SPEC_FILE, load_operator
from service.operators.kernelbench import name_of_problem, operator_of_problem
from service.operators.shapes import all_shapes
from workers import sandbox, trace_job
from workers.kernelbench import inspect
from workers.protocol import Device, Graph, MutationReport, Operator, Outcome, TraceJob, TraceReport
from workers.protocol.kernelbench import ProblemQuestion
from workers.trace_job.admission import LIMITS as ADMISSION_LIMITS
from workers.trace_job.admission import admission
from workers.tracer import reference

HERE = "kernelbench"
DEVICE = Device.parse("model:sm_90")
STAGES = ("import", "export", "seed", "gate", "published", "model")
LIMITS = sandbox.SandboxLimits(wall_s=240.0, cpu_s=30.0)
"""Limits of one export. It takes a second or two of a processor; others may be using it."""
GATE_LIMITS = replace(ADMISSION_LIMITS, wall_s=600.0)
"""Limits of mutation testing: the usual seconds of a processor, and more time, as others may be using it."""
LATE = "did not end within"
"""Words of a mutation test that other processes slowed down; it is made again."""

Row = dict[str, Any]
TOLD_BY = {"import": "imported", "export": "exported", "seed": "seed", "gate": "gate"}
"""Fields of a row by the stage that finds them out."""


class ProblemRun:
    """One problem on its way through the stages; `row` says what came of it so far."""

    def __init__(self, path: Path, row: Row) -> None:
        self.row = {"problem": key_of(path), "reason": "", "seconds": {}} | row
        if LATE in self.row.get("gate", {}).get("reason", ""):
            seconds = {name: value for name, value in self.row["seconds"].items() if name != "gate"}
            self.row = {name: value for name, value in self.row.items() if name != "gate"} | {"seconds": seconds}
        self._source, self._name = read_problem(path), name_of_problem(path)
        self._spec: Operator | None = None
        self._graphs: tuple[Graph, ...] = ()
        self._draft = ""

    def go(self, stages: Sequence[str]) -> None:
        """Pass through stages in order, as far as one needs what another makes; stop where one says no."""
        work: dict[str, Callable[[], Row]] = {
            "import": self._import,
            "export": self._export,
            "seed": self._seed,
            "gate": lambda: {"gate": shown(admission(self._operator(), self._graphs, GATE_LIMITS))},
            "published": self._published,
            "model": self._model,
        }
        for stage in stages:
            if stage in self.row["seconds"] or TOLD_BY.get(stage) in self.row or self.row["reason"]:
                continue
            started = time.perf_counter()
            try:
                if stage != "import" and self._spec is None:
                    self._import()
                if stage in ("gate", "published") and not self._graphs:
                    self._export()
                self.row |= work[stage]()
            except InvalidInput as error:
                self.row["reason"] = error.detail
            except ServiceError as error:
                self.row[f"{stage}_failed"] = error.detail
            self.row["seconds"][stage] = round(time.perf_counter() - started, 1)

    def _operator(self) -> Operator:
        assert self._spec is not None
        return self._spec

    def _import(self) -> Row:
        found = inspect(ProblemQuestion(source=self._source))
        spec = operator_of_problem(self._name, self._source, found)
        lost = self.row.get("ranges_without_seed", ())
        ranges = {name: bounds for name, bounds in spec.ranges.items() if name not in lost}
        self._spec = spec.model_copy(update={"ranges": ranges})
        dims = {"dims": found.shapes[0], "ranges": found.ranges, "notes": found.notes}
        return {"imported": True, "operator": self._name, "inputs": len(found.inputs), **dims}

    def _export(self) -> Row:
        said = exported(self._operator())
        self._graphs = tuple(Graph.model_validate(graph) for graph in said.get("graphs", ()))
        if not self._graphs:
            raise InvalidInput(f"the reference does not export: {said.get('reason')}")
        return {"exported": True, "operations": len(self._graphs[0].nodes)}

    def _seed(self) -> Row:
        spec = self._operator()
        first = report = drafted(spec)
        while not report.draft and spec.ranges:
            spec = narrowed_by(spec, report.reason)
            report = drafted(spec)
        self._draft = report.draft
        if not report.draft:
            return {"seed": False, "no_seed": first.reason}
        lost = [name for name in self._operator().ranges if name not in spec.ranges]
        self._spec = spec
        return {"seed": True, "no_seed": "", "ranges_without_seed": lost}

    def _published(self) -> Row:
        published = inspect(ProblemQuestion(source=self._source, published=True))
        spec = operator_of_problem(self._name, self._source, published)
        return {"gate_as_published": shown(admission(spec, self._graphs, GATE_LIMITS))}

    def _model(self) -> Row:
        if not self._draft:
            self.row |= self._seed()
        if not self._draft:
            return {}
        spec = self._operator().model_copy(update={"seeds": (self._draft,)})
        return {"model": asyncio.run(judged(spec))}


def job_for(spec: Operator) -> TraceJob:
    """The job of exporting an operator."""
    return TraceJob(id=HERE, search=HERE, operator=spec, shapes=all_shapes(spec, seed=0), target=DEVICE.target)


def drafted(spec: Operator) -> TraceReport:
    """The draft of a seed kernel for an operator."""
    job = job_for(spec).model_copy(update={"drafts": True, "deadline_s": 4 * DRAFT_S})
    return trace_job.trace(job, HERE)


def exported(spec: Operator) -> Row:
    """Export the reference, without the mutation testing that follows."""
    result = sandbox.run(reference.export, job_for(spec).model_dump_json().encode(), LIMITS)
    if result.ending is not sandbox.SandboxEnding.RETURNED:
        return {"reason": result.reason or result.ending}
    said: Row = json.loads(result.reply)
    return said


def shown(gate: MutationReport) -> Row:
    """A gate's verdict, in short."""
    found = Counter((entry.kind, entry.verdict) for entry in gate.entries)
    return {
        "verdict": gate.verdict,
        "reason": gate.reason,
        "survived": [f"{entry.kind} {entry.name}" for entry in gate.entries if entry.verdict == "survived"],
        "trivial_and_right": [e.name for e in gate.entries if (e.kind, e.verdict) == ("trivial", "equivalent")],
        "rejected": [entry.name for entry in gate.entries if entry.verdict == "rejected"],
        "killed": found["trivial", "killed"] + found["mutant", "killed"],
        "untried": sum(entry.verdict == "untried" for entry in gate.entries),
    }


async def judged(spec: Operator) -> Row:
    """The verdict on an operator's seed on `model`: interpreted at shapes small enough for it, traced at all."""
    async with Judge(spec.model_copy(update={"seeds": ()}), DEVICE) as judge:
        found = await judge.judge(spec.seeds[0])
    return {"outcome": found.outcome, "reason": found.reason}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts by level."""
    counts: dict[str, Counter[str]] = {}
    for entry in rows:
        count = counts.setdefault(entry["problem"].partition("/")[0], Counter())
        count["problems"] += 1
        for stage in ("imported", "exported", "seed"):
            count[stage] += bool(entry.get(stage))
            count[f"{stage} tried"] += stage in entry or bool(entry["reason"])
        for stage in ("gate", "gate_as_published"):
            if entry.get(stage):
                count[f"{stage} {entry[stage]['verdict']}"] += 1
        if entry.get("model"):
            count["seed correct on model"] += entry["model"]["outcome"] == Outcome.CORRECT
    return {level: dict(count) for level, count in counts.items()}


def prepared_rows(folder: Path) -> dict[str, Row]:
    """Rows by problem of what `kernelbench_prepare` found under the default contract."""
    lines = [line for line in read_lines(folder / PREPARED) if line["contract"] == DEFAULT]
    told = [line for line in lines if not line["reason"].startswith(NOT_PREPARED)]
    return {line["problem"]: _prepared_row(folder / DEFAULT / line["operator"], line) for line in told}


def _prepared_row(home: Path, line: Row) -> Row:
    row: Row = {"problem": line["problem"], "reason": "", "seconds": {"prepare": line["prepare_s"]}}
    if not (home / SPEC_FILE).exists():
        return row | {"reason": line["reason"]}
    spec = load_operator(home)
    head = takewhile(lambda text: text.startswith("# "), (home / SPEC_FILE).read_text().splitlines())
    notes = [text.removeprefix("# ") for text in head][1:]
    row |= {"imported": True, "operator": spec.name, "inputs": len(spec.inputs), "dims": dict(spec.shapes[0].dims)}
    row |= {"ranges": {name: list(bounds) for name, bounds in spec.ranges.items()}, "notes": notes}
    if not line["seeds"]:
        return row | {"seed": False, "no_seed": line["reason"].removeprefix(NO_SEED)}
    lost = [note.split("'")[1] for note in notes if NO_RANGE in note]
    row |= {"seed": True, "no_seed": "", "ranges_without_seed": lost}
    if line["reason"]:
        return row | {"reason": line["reason"]}
    gate = home / GATE
    found = {"gate": shown(MutationReport.model_validate_json(gate.read_text()))} if gate.exists() else {}
    return row | {"exported": True} | found


def known_rows(result: Path) -> dict[str, Row]:
    """Rows of an earlier run by problem: those of its result, and those that it had made when it was interrupted."""
    found: dict[str, Row] = {}
    lines = result.with_suffix(".jsonl")
    earlier = json.loads(result.read_text())["rows"] if result.exists() else []
    interrupted = map(json.loads, lines.read_text().splitlines()) if lines.exists() else ()
    for row in (*earlier, *interrupted):
        before = found.get(row["problem"], {})
        found[row["problem"]] = before | row | {"seconds": before.get("seconds", {}) | row["seconds"]}
    return found


def tabulate(
    problems: Sequence[Path], stages: Sequence[str], result: Path, prepared: Mapping[str, Row]
) -> dict[str, Row]:
    """A row for every problem, and those of an earlier run; what is known already is not found out again.

    A row with a date is older than the others, and gives way to what was prepared.
    """
    rows = dict(prepared)
    rows |= {key: row for key, row in known_rows(result).items() if "date" not in row or key not in prepared}
    with result.with_suffix(".jsonl").open("a") as lines:
        for path in problems:
            problem = ProblemRun(path, rows.get(key_of(path), {}))
            problem.go(stages)
            if rows.get(key_of(path)) != problem.row:
                rows[key_of(path)] = problem.row
                lines.write(json.dumps(problem.row) + "\n")
                lines.flush()
                print(key_of(path), problem.row["seconds"], problem.row["reason"] or problem.row.get("no_seed", ""))
    return rows


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="the folder with level1, level2, …")
    parser.add_argument("--levels", default="1,2")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--prepared", type=Path, help="folder that kernelbench_prepare made")
    parser.add_argument("--commit", default="", help="that of the checkout, to be noted")
    parser.add_argument(
        "--only", default="", help="a regular expression: look at these problems alone, and keep the rows of others"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "kernelbench_import.json")
    options = parser.parse_args()
    problems = [file for level in options.levels.split(",") for file in problem_files(options.path / f"level{level}")]
    trace_job.warm()
    only = re.compile(options.only)
    tried = [path for path in problems if only.search(key_of(path))]
    prepared = {} if options.prepared is None else prepared_rows(options.prepared)
    rows = tabulate(tried, options.stages.split(","), options.out, prepared)
    listed = [rows[key_of(path)] for path in problems if key_of(path) in rows]
    again = f"python -m benchmarks.kernelbench PATH --levels {options.levels} --stages {options.stages}"
    again += "" if options.prepared is None else " --prepared prepared"
    told = {"command": again, "commit": options.commit, "summary": summary(listed)}
    print(write(options.out.stem, listed, options.out.parent, **told))
    options.out.with_suffix(".jsonl").unlink()


if __name__ == "__main__":
    main()
