"""Published kernels: which of those that are right are accepted as they are.

python -m benchmarks.published FOLDER                  # every folder of FOLDER, one per file of `published_lot.tsv`
python -m benchmarks.published FOLDER --only 03,17     # these alone; rows of others are kept

Each folder holds `kernel.json` (repository, commit, path, main file, edited lines), `candidate` (the fetched file with
its adapter, and files of its repository that it imports), and `operator` (the spec and reference that it is judged by).
A kernel is fine if Triton's own interpreter, with real tensors on the CPU and without our tracer, gives the reference's
results at the spec's shapes and with every range at its ends (`published_harness`). Mutation testing of the spec is
left out: it judges operators. None of the fetched files is part of this repository.
"""

import argparse
import json
import secrets
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, write
from service.errors import ServiceError
from service.operators.catalogue import load_operator
from service.operators.joined_files import read_candidate
from service.operators.shapes import all_shapes
from workers import sandbox, trace_job
from workers.devices import ModelDevice
from workers.protocol import Device, Graph, MeasureJob, Outcome, TraceJob
from workers.safe_python import PYTHON
from workers.tracer import reference
from workers.tracer.refusal import tidy

HERE = "published"
DEVICE = Device.parse("model:sm_90")
HARNESS_S = 300
"""Seconds for a kernel in Triton's interpreter, which runs programs one after the other."""
TOLD = 400
"""Longest part of a reason in a row."""

Row = dict[str, Any]


def judged(folder: Path) -> Row:
    """Judge the best variant of a kernel on `model`."""
    operator = load_operator(str(folder / "operator"))
    main = json.loads((folder / "kernel.json").read_text())["main"]
    files = sorted((folder / "candidate").rglob("*.py"), key=lambda path: path != folder / "candidate" / main)
    source = read_candidate(files, operator.entry).text
    job = TraceJob(
        id=HERE,
        search=HERE,
        candidate=HERE,
        source=source,
        operator=operator,
        shapes=all_shapes(operator, secrets.randbits(31)),
        target=DEVICE.target,
    )
    traced = trace_job.trace(job, HERE)
    bundles = [variant for variant in traced.variants if variant.bundle is not None]
    if not bundles:
        return {"outcome": traced.outcome.value, "reason": traced.reason}
    graphs = exported(job)
    told: Row = {}
    for variant in bundles:
        report = ModelDevice(DEVICE, HERE).measure(
            MeasureJob(
                id=HERE,
                search=HERE,
                candidate=HERE,
                variant=variant.index,
                bundle=variant.bundle,
                operator=operator,
                graphs=graphs,
                device=DEVICE,
                source=source,
            )
        )
        told = {"outcome": report.outcome.value, "reason": report.reason}
        if report.outcome is Outcome.CORRECT:
            break
    return told


def exported(job: TraceJob) -> tuple[Graph, ...]:
    """Export the reference at a job's shapes, without mutation testing."""
    result = sandbox.run(
        reference.export,
        job.model_copy(update={"source": None, "candidate": None}).model_dump_json().encode(),
        sandbox.SandboxLimits(wall_s=120.0, cpu_s=60.0),
    )
    said = json.loads(result.reply) if result.reply else {"reason": result.detail}
    if not said.get("graphs"):
        raise ServiceError(f"the reference does not export: {said.get('reason')}")
    return tuple(Graph.model_validate(graph) for graph in said["graphs"])


def in_harness(folder: Path) -> Row:
    """Run a kernel outside of our tracer, beside its reference."""
    command = [*PYTHON, "-m", "benchmarks.published_harness", str(folder)]
    root = Path(__file__).parents[1]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HARNESS_S, cwd=root)
    except subprocess.TimeoutExpired:
        return {"fine": False, "harness": f"not done after {HARNESS_S} s"}
    said = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
    return {"fine": done.returncode == 0, "harness": tidy(said[-1])[:TOLD]}


def row_of(folder: Path, known: Row, again: bool) -> Row:
    """Return a kernel's row; what the harness found is kept unless it is to run again."""
    kernel = json.loads((folder / "kernel.json").read_text())
    row = {name: kernel[name] for name in ("repository", "commit", "path", "operator")} | {"device": DEVICE.name}
    if "main" not in kernel:
        return row | {"edits": None, "fine": None, "outcome": "not tried", "reason": kernel.get("why", "")}
    row["edits"] = kernel["edits"]
    row |= in_harness(folder) if again or "harness" not in known else {k: known[k] for k in ("fine", "harness")}
    try:
        told = judged(folder)
    except ServiceError as error:
        told = {"outcome": "not judged", "reason": error.detail}
    return row | {"outcome": told["outcome"], "reason": told["reason"][:TOLD].replace(str(folder), "")}


def summary(rows: list[Row]) -> Row:
    """Count the kernels that are fine by outcome."""
    fine = [row for row in rows if row["fine"]]
    accepted = sum(row["outcome"] == Outcome.CORRECT for row in fine)
    return {
        "drawn": len(rows),
        "tried": sum(row["fine"] is not None for row in rows),
        "repositories": len({row["repository"] for row in rows if row["fine"] is not None}),
        "fine": len(fine),
        "accepted": accepted,
        "share": round(accepted / len(fine), 3) if fine else None,
        "outcomes": dict(Counter(row["outcome"] for row in fine)),
        "accepted_though_not_fine": sum(row["outcome"] == Outcome.CORRECT and row["fine"] is False for row in rows),
    }


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="numbers of folders, separated by commas")
    parser.add_argument("--harness", action="store_true", help="run the harness again, too")
    parser.add_argument("--out", type=Path, default=RESULTS / "published.json")
    options = parser.parse_args()
    known = {row["path"]: row for row in json.loads(options.out.read_text())["rows"]} if options.out.exists() else {}
    only = set(filter(None, options.only.split(",")))
    rows = []
    for folder in sorted(options.folder.iterdir()):
        path = json.loads((folder / "kernel.json").read_text())["path"]
        if only and folder.name not in only:
            rows += [known[path]] if path in known else []
            continue
        row = row_of(folder, known.get(path, {}), options.harness)
        print(folder.name, row["fine"], row["outcome"], row["reason"][:150], row.get("harness", "")[:100], flush=True)
        rows.append(row)
        known[path] = row
    told = {"command": "python -m benchmarks.published FOLDER", "summary": summary(rows)}
    print(write(options.out.stem, rows, options.out.parent, **told), told["summary"], sys.argv[0])


if __name__ == "__main__":
    main()
