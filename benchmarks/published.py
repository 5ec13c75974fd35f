"""Published kernels: which of those that are right are accepted as they are.

python -m benchmarks.published FOLDER                  # every folder of FOLDER, as `published_folders` builds them
python -m benchmarks.published FOLDER --only 003,017   # these alone; rows of others are kept
python -m benchmarks.published FOLDER --device h100 --processes 16    # on this machine's card; adds rows of it
python -m benchmarks.published FOLDER --device h100 --first 120 --patience-s 240    # a slow one is no tail of the run
python -m benchmarks.published --join FILE             # takes the rows that another machine wrote with `--out FILE`

Each folder holds `kernel.json` (repository, commit, path, main file, edited lines), `candidate` (the fetched file with
its adapter, and files of its repository that it imports), and `operator` (the spec and reference that it is judged by).
A kernel is fine if it gives the reference's results without our tracer, at the spec's shapes and with every range at
its ends (`published_harness`): in Triton's own interpreter, with real tensors on the CPU, or compiled, on a card.
Mutation testing of the spec is left out: it judges operators. None of the fetched files is part of this repository.
"""

import argparse
import json
import multiprocessing
import secrets
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from queue import PriorityQueue
from typing import Any

from benchmarks.record import RESULTS, machine, versions, write
from service.errors import ServiceError
from service.operators.catalogue import load_operator
from service.operators.joined_files import read_candidate
from service.operators.shapes import all_shapes
from tests.gpu.benches import Team, measuring
from workers import sandbox, trace_job
from workers.devices import ModelDevice
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    CardShare,
    Device,
    Graph,
    MeasureJob,
    Outcome,
    Report,
    TraceJob,
)
from workers.safe_python import PYTHON
from workers.tracer import reference
from workers.tracer.refusal import tidy

HERE = "published"
HARNESS_S = 300
"""Seconds for a kernel in Triton's interpreter, which runs programs one after the other."""
MADE = ("machine", "versions", "date")
PATIENCE_S = 120.0
"""Seconds for a kernel on a card, by default; it is timed briefly, since rows have no times of kernels."""
TOLD = 400
"""Longest part of a reason in a row."""

Row = dict[str, Any]
Measure = Callable[[MeasureJob], Answer]


def prepared(folder: Path, device: Device) -> tuple[Row, tuple[MeasureJob, ...]]:
    """Trace a kernel; returns the verdict of a kernel without variants, or a job per variant."""
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
        target=device.target,
    )
    traced = trace_job.trace(job, HERE)
    bundles = [(variant.index, variant.bundle) for variant in traced.variants if variant.bundle is not None]
    if not bundles:
        return {"outcome": traced.outcome.value, "reason": traced.reason}, ()
    graphs = exported(job)
    return {}, tuple(
        MeasureJob(
            id=HERE,
            search=HERE,
            candidate=HERE,
            variant=index,
            bundle=bundle,
            operator=operator,
            graphs=graphs,
            device=device,
            source=None if device.measures else source,
            related=False,
            eager_alone=True,
            deadline_s=MEASURED_DEADLINE_S,
        )
        for index, bundle in bundles
    )


def judged(jobs: tuple[MeasureJob, ...], measure: Measure) -> Row:
    """Judge the best variant of a kernel."""
    told: Row = {}
    for job in jobs:
        report = measure(job)
        if not isinstance(report, Report):
            report = measure(job)  # The machine failed, not the kernel.
        if not isinstance(report, Report):
            return {"outcome": "not judged", "reason": getattr(report, "error", report.kind)}
        told = {"outcome": report.outcome.value, "reason": report.reason}
        if report.card is not None:
            told["card"] = report.card.name
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


def in_harness(folder: Path, device: Device) -> Row:
    """Run a kernel outside of our tracer, beside its reference."""
    command = [*PYTHON, "-m", "benchmarks.published_harness", str(folder), *(["--card"] if device.measures else [])]
    root = Path(__file__).parents[1]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HARNESS_S, cwd=root)
    except subprocess.TimeoutExpired:
        return {"fine": False, "harness": f"not done after {HARNESS_S} s"}
    said = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
    return {"fine": done.returncode == 0, "harness": tidy(said[-1])[:TOLD]}


def row_of(folder: Path, device: Device, known: Row, again: bool) -> tuple[Row, tuple[MeasureJob, ...]]:
    """Return a kernel's row, and what is left to measure on a card.

    What the harness found is kept unless it is to run again. On a card it runs later: timings need the card alone.
    """
    kernel = json.loads((folder / "kernel.json").read_text())
    row = {name: kernel[name] for name in ("repository", "commit", "path", "operator")} | {"device": device.name}
    if "main" not in kernel:
        return row | {"edits": None, "fine": None, "outcome": "not tried", "reason": kernel.get("why", "")}, ()
    row["edits"] = kernel["edits"]
    if device.measures or not (again or known.get("fine") is None):
        row |= {name: known.get(name) for name in ("fine", "harness")}
    else:
        row |= in_harness(folder, device)
    try:
        told, jobs = prepared(folder, device)
        if jobs and not device.measures:
            told, jobs = judged(jobs, ModelDevice(device, HERE).measure), ()
    except Exception as error:  # noqa: BLE001 - one kernel that fails in a new way must not end the others' run
        said = getattr(error, "detail", f"{type(error).__name__}: {error}")
        told, jobs = {"outcome": "not judged", "reason": said}, ()
    return row | tellable(told, folder), jobs


def tellable(told: Row, folder: Path) -> Row:
    """Return outcome and reason as a row has them."""
    return {name: str(text)[:TOLD].replace(str(folder), "") for name, text in told.items()}


def summary(rows: list[Row], device: str) -> Row:
    """Count the kernels of a device that are fine by outcome."""
    rows = [row for row in rows if row["device"] == device]
    fine = [row for row in rows if row["fine"]]
    accepted = sum(row["outcome"] == Outcome.CORRECT for row in fine)
    return {
        "drawn": len(rows),
        "tried": sum(row["edits"] is not None for row in rows),
        "repositories": len({row["repository"] for row in rows if row["edits"] is not None}),
        "fine": len(fine),
        "accepted": accepted,
        "share": round(accepted / len(fine), 3) if fine else None,
        "outcomes": dict(Counter(row["outcome"] for row in fine)),
        "accepted_though_not_fine": sum(row["outcome"] == Outcome.CORRECT and row not in fine for row in rows),
    }


class PublishedTable:
    """The rows by path and device; each is written as soon as it is known, so a run that is killed keeps it.

    `made` says by device where and when its newest row was made; the document's own fields are of the last run.
    """

    def __init__(self, out: Path, device: Device) -> None:
        self.out, self.device = out, device
        self._lock = threading.Lock()
        document = json.loads(out.read_text()) if out.exists() else {"rows": []}
        self._rows: dict[tuple[str, str], Row] = {(row["path"], row["device"]): row for row in document["rows"]}
        first = {name: document[name] for name in MADE if name in document}
        self._made: Row = document.get("made", {name: first for name in dict.fromkeys(d for _, d in self._rows)})

    def join(self, other: Path) -> None:
        """Replace all rows of a device by those that a run elsewhere wrote; a device's rows are of one run."""
        document = json.loads(other.read_text())
        taken = {row["device"] for row in document["rows"]}
        self._rows = {place: row for place, row in self._rows.items() if row["device"] not in taken}
        self._rows |= {(row["path"], row["device"]): row for row in document["rows"]}
        self._made |= {device: document["made"][device] for device in taken}
        self._write(document["command"])

    def known(self, folder: Path) -> Row:
        """Return the row of a folder so far; empty if there is none."""
        return self._rows.get(self._place(folder), {})

    def put(self, folder: Path, row: Row) -> None:
        """Add or replace a row."""
        with self._lock:
            self._rows[self._place(folder)] = row
            print(
                folder.name, row["outcome"], row["reason"][:150], row["fine"], str(row.get("harness"))[:100], flush=True
            )
            self._made[self.device.name] = self._made_here(row.get("card"))
            self._write(f"python -m benchmarks.published FOLDER --device {self.device.name}")

    def _write(self, command: str) -> None:
        rows = list(self._rows.values())
        told = {"command": command, "summary": summaries(rows), "made": self._made}
        write(self.out.stem, rows, self.out.parent, **told)

    def _made_here(self, card: str | None) -> Row:
        gpu = card or self._made.get(self.device.name, {}).get("machine", {}).get("gpu")
        here = {"machine": machine() | {"gpu": gpu}, "versions": versions()}
        return here | {"date": datetime.now(UTC).date().isoformat()}

    def _place(self, folder: Path) -> tuple[str, str]:
        return json.loads((folder / "kernel.json").read_text())["path"], self.device.name


def summaries(rows: list[Row]) -> Row:
    """Count by device."""
    return {name: summary(rows, name) for name in dict.fromkeys(row["device"] for row in rows)}


def measure_all(
    folders: list[Path], table: PublishedTable, pool: ProcessPoolExecutor, benches: int, patience_s: float = PATIENCE_S
) -> None:
    """Trace every kernel, and measure each that is traced, the first of `folders` first.

    Args:
        folders: The kernels, in the order of their turns.
        table: Takes the rows; `judged_s` of a row is the seconds until its verdict on the card.
        pool: Traces kernels.
        benches: Number of executors that share the card.
        patience_s: Seconds for one job on the card.
    """
    command = measuring(table.device, CardShare(0, benches))
    traced: PriorityQueue[tuple[int, Row, tuple[MeasureJob, ...]]] = PriorityQueue()
    with closing(Team(command, patience_s)) as team, ThreadPoolExecutor(benches) as threads:

        def measure() -> None:
            turn, row, jobs = traced.get_nowait()
            begun = time.monotonic()
            told = judged(jobs, team.ask)
            spent = {"judged_s": round(time.monotonic() - begun, 1)}
            table.put(folders[turn], row | tellable(told, folders[turn]) | spent)

        turns = {
            pool.submit(row_of, each, table.device, table.known(each), False): turn for turn, each in enumerate(folders)
        }
        measured = []
        for future in as_completed(turns):
            row, jobs = future.result()
            if jobs:
                traced.put((turns[future], row, jobs))
                measured.append(threads.submit(measure))
            else:
                table.put(folders[turns[future]], row)
        for each in measured:
            each.result()


def run_harness(folders: list[Path], table: PublishedTable, pool: ProcessPoolExecutor) -> None:
    """Run kernels outside of our tracer on the card, and add what that finds to their rows."""
    found = {pool.submit(in_harness, folder, table.device): folder for folder in folders}
    for future in as_completed(found):
        folder = found[future]
        table.put(folder, table.known(folder) | future.result())


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers of folders in an option."""
    return tuple(filter(None, text.split(",")))


def chosen(folder: Path, only: tuple[str, ...], first: tuple[str, ...]) -> list[Path]:
    """Return the folders of kernels by number, all if `only` is empty, those of `first` before the others."""
    found = {path: path.name.partition("_")[0] for path in sorted(folder.iterdir())}
    wanted = [path for path, number in found.items() if not only or number in only]
    return sorted(wanted, key=lambda path: found[path] not in first)


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--join", type=Path, help="a file of rows of another machine, instead of a folder")
    parser.add_argument("--only", type=numbers, default=(), help="numbers of folders, separated by commas")
    parser.add_argument("--first", type=numbers, default=(), help="numbers of folders whose turn is before the others'")
    parser.add_argument("--harness", action="store_true", help="run the harness again, too")
    parser.add_argument("--device", type=Device.parse, default=Device.parse("model:sm_90"))
    parser.add_argument("--processes", type=int, default=1, help="kernels at once; each takes a core")
    parser.add_argument("--benches", type=int, default=3, help="executors that share the card")
    parser.add_argument("--patience-s", type=float, default=PATIENCE_S, help="seconds for a kernel on a card")
    parser.add_argument("--out", type=Path, default=RESULTS / "published.json")
    options = parser.parse_args()
    device = options.device
    table = PublishedTable(options.out, device)
    if options.join:
        return table.join(options.join)
    if options.folder is None:
        parser.error("a folder of kernels, or --join, is needed")
    folders = chosen(options.folder, options.only, options.first)
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, spawned, trace_job.warm) as pool:
        if device.measures:
            measure_all(folders, table, pool, options.benches, options.patience_s)
            run_harness([each for each in folders if options.harness or lacks_harness(table.known(each))], table, pool)
        else:
            rows = {pool.submit(row_of, each, device, table.known(each), options.harness): each for each in folders}
            for future in as_completed(rows):
                table.put(rows[future], future.result()[0])
    print(options.out)


def lacks_harness(row: Row) -> bool:
    """Return True if the harness has not run for a kernel that was tried."""
    return row["edits"] is not None and row["fine"] is None


if __name__ == "__main__":
    main()
