"""Searches as a user runs them: `reef search OPERATOR --device DEVICE` with its defaults, in an empty data folder.

    python -m benchmarks.as_run softmax --seconds 240 --out results
    python -m benchmarks.as_run --quick --out results

Rows are appended to `as_run.jsonl`, and `as_run.json` is written from all of them. `--quick` runs all five operators
for 60 s each. `--label` names the state of the code that is measured, such as `before`. Times are read from the archive
and from the workers' log that the search leaves behind, so nothing runs beside it but samples of how busy the card and
the cores are.
`judged_per_h` counts distinct bundles whose checks ran on the device, each once. `verdicts` counts all candidates, also
those with equal plans, and `known_share` is the share of bundles that were known.
`ending_s` has the parts of the end: from the stop rule until the search is done, then confirms, baselines and late
verdicts, then examinations of finalists, then the command's own end. `--unexamined` leaves the examinations out, as
Ctrl-C does. An interrupted benchmark, also by SIGTERM, ends its command and leaves the row of what is known.
"""

import argparse
import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from sqlalchemy import Connection, create_engine, select
from sqlalchemy.exc import DatabaseError

from archive import tables
from archive.records import WON
from benchmarks.figures import FigureRows, LineLog, Row, device_of, visible_card
from benchmarks.record import RESULTS
from service.evaluation.jobs import BASELINES, FINAL, FINAL_TRACE, NEAR_TRACE, purpose_of, trace_id
from service.settings import DATABASE_FILE
from workers.protocol import Device, Outcome, Report, Samples

OPERATORS = ("softmax", "rmsnorm", "cross_entropy", "matmul", "attention")
QUICK_S = 60
MOMENTS_S = (60, 120, 240)
"""Seconds since the command began at which the best kernel is noted."""
EVALUATIONS = 1_000_000
"""Maximum number of evaluations: more than any card judges before the stop rule ends the search."""
PATIENCE_S = 900
"""Seconds beyond the stop rule's until a command that has not ended is given up. Its archive is read all the same."""
END_S = 15
"""Seconds that an interrupted command gets to end by itself."""
LOOK_S = 1.0
INTERRUPTED = "the benchmark was interrupted"
SAID_CHARS = 2000
EXPORT_S = 120
SAMPLE_S = 0.5
CARD_SAMPLE_MS = 200
"""Milliseconds between two samples of the card's utilisation."""
WORKERS_LOG = "workers.log"
"""Log of the workers in the data folder."""


class CardUtilisation:
    """Utilisation of the card in per cent, by its own counters; none without `nvidia-smi`."""

    def __init__(self, card: int) -> None:
        self._found: deque[float] = deque()
        command = [
            "nvidia-smi",
            f"--id={visible_card(card)}",
            "--query-gpu=utilization.gpu",
            "--format=csv,noheader,nounits",
        ]
        self._process: subprocess.Popen[str] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                [*command, f"--loop-ms={CARD_SAMPLE_MS}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            threading.Thread(target=self._read, daemon=True).start()

    def taken(self) -> list[float]:
        """Return the samples since the last call."""
        return [self._found.popleft() for _ in range(len(self._found))]

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            for line in self._process.stdout:
                with suppress(ValueError):
                    self._found.append(float(line))


def processor_ticks() -> tuple[int, int]:
    """Ticks of all processors so far: spent working, and in all."""
    listing = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(text) for text in listing]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


@dataclass
class Utilisation:
    """Samples of the machine while a command runs: per cent of the card, and ticks of the cores, with their times."""

    card: list[tuple[float, float]] = field(default_factory=list)
    ticks: list[tuple[float, int, int]] = field(default_factory=list)

    def card_share(self, begin: float, end: float) -> float | None:
        """Return the mean utilisation of the card between two times; None without samples."""
        found = [percent for at, percent in self.card if begin <= at <= end]
        return round(statistics.fmean(found) / 100, 3) if found else None

    def core_share(self, begin: float, end: float) -> float | None:
        """Return the share of all cores that worked between two times; None without samples."""
        found = [(busy, total) for at, busy, total in self.ticks if begin <= at <= end]
        if len(found) < 2 or found[-1][1] == found[0][1]:
            return None
        return round((found[-1][0] - found[0][0]) / (found[-1][1] - found[0][1]), 3)


@contextmanager
def sampled(card: int) -> Iterator[Utilisation]:
    """Sample the machine until the block ends."""
    found, over = Utilisation(), threading.Event()
    with closing(CardUtilisation(card)) as gauge:

        def look() -> None:
            while not over.wait(SAMPLE_S):
                now = time.time()
                found.card += [(now, percent) for percent in gauge.taken()]
                found.ticks.append((now, *processor_ticks()))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()


@dataclass(frozen=True)
class StoredReport:
    """A report in the archive, with the time when it was stored."""

    at: float
    report: Report


@dataclass(frozen=True)
class StoredSearch:
    """One search's rows of the archive; times are seconds since the epoch.

    Attributes:
        created: When it was submitted.
        ended: When it was done; None if it was not.
        state: Final state.
        reason: Reason of the final state.
        outcomes: Outcomes of its judged candidates.
        reports: Its reports, oldest first.
        bundles: Bundles of all traced variants, in the order of their candidates.
        stages_s: Seconds by stage of each trace.
        placements: Winning offers: time, objective and median speedup.
        proposed: When each candidate was proposed, by its id.
    """

    created: float
    ended: float | None
    state: str
    reason: str
    outcomes: tuple[str, ...]
    reports: tuple[StoredReport, ...]
    bundles: tuple[str, ...]
    stages_s: tuple[Mapping[str, float], ...]
    placements: tuple[tuple[float, float, float], ...]
    proposed: Mapping[str, float]


def read_search(path: Path) -> StoredSearch:
    """Read the only search of an archive."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        search = connection.execute(select(tables.searches)).one()
        candidates = connection.execute(select(tables.candidates).order_by(tables.candidates.c.ordinal)).all()
        stored = select(tables.placements).order_by(tables.placements.c.seq)
        won = [row for row in connection.execute(stored) if row.placement in WON]
        found = StoredSearch(
            created=_epoch(search.created_at),
            ended=None if search.ended_at is None else _epoch(search.ended_at),
            state=search.state.value,
            reason=search.reason,
            outcomes=tuple(row.outcome for row in candidates if row.outcome),
            reports=_reports(connection),
            bundles=_bundles(connection),
            stages_s=tuple(row.stages_s for row in candidates),
            placements=tuple((_epoch(row.offered_at), row.objective, row.mid) for row in won),
            proposed={row.id: _epoch(row.created_at) for row in candidates},
        )
    engine.dispose()
    return found


def _reports(connection: Connection) -> tuple[StoredReport, ...]:
    rows = connection.execute(select(tables.reports).order_by(tables.reports.c.seq))
    return tuple(StoredReport(_epoch(row.created_at), Report.model_validate_json(row.document)) for row in rows)


def _bundles(connection: Connection) -> tuple[str, ...]:
    joined = tables.variants.join(tables.candidates, tables.candidates.c.id == tables.variants.c.candidate)
    stored = select(tables.variants.c.bundle).select_from(joined)
    rows = connection.execute(stored.order_by(tables.candidates.c.ordinal, tables.variants.c.index))
    return tuple(row.bundle for row in rows if row.bundle)


def _epoch(at: datetime) -> float:
    return at.timestamp()


@dataclass
class JobTimes:
    """Times of jobs in the workers' log, in seconds since the epoch.

    Attributes:
        ready: When the first executor of each kind was ready.
        taken: When a worker took each job.
        done: When a worker handed in its report.
    """

    ready: dict[str, float] = field(default_factory=dict)
    taken: dict[str, float] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)


def read_times(log: Path) -> JobTimes:
    """Read the workers' log."""
    times = JobTimes()
    for line in log.read_text(errors="replace").splitlines():
        with suppress(ValueError, KeyError):
            found = json.loads(line)
            at, event = datetime.fromisoformat(found["timestamp"]).timestamp(), found["event"]
            if event == "executor ready":
                times.ready.setdefault(found["kind"], at)
            elif event in ("job taken", "report handed in"):
                (times.taken if event == "job taken" else times.done)[found["job"]] = at
    return times


def path_of(times: JobTimes, begun: float) -> Row:
    """Compute the path of candidates.

    Returns:
        `start_s`, seconds from `begun` to what precedes the first verdict: workers of each kind are ready, and the
            first job of each purpose is taken and done.
        `job_s`, the median seconds of jobs by purpose.
        `to_measure_s`, the median seconds from the end of a trace to the begin of its measurement.
    """
    start = {f"{kind} ready": at for kind, at in times.ready.items()}
    for event, moments in (("taken", times.taken), ("done", times.done)):
        for job, at in moments.items():
            name = f"{_purpose(job)} {event}"
            start[name] = min(at, start.get(name, at))
    spent: defaultdict[str, list[float]] = defaultdict(list)
    waited: list[float] = []
    for job, at in times.done.items():
        if job not in times.taken:  # A line was lost, or two processes wrote theirs at once.
            continue
        spent[_purpose(job)].append(at - times.taken[job])
        traced = times.done.get(trace_id(job.split(":")[0]))
        if _purpose(job) == "measure" and traced is not None:
            waited.append(times.taken[job] - traced)
    early = sorted((at, name) for name, at in start.items() if name.split()[0] not in LATE)
    return {
        "start_s": {name: round(at - begun, 1) for at, name in early},
        "job_s": {name: round(statistics.median(seconds), 2) for name, seconds in spent.items()},
        "to_measure_s": round(statistics.median(waited), 2) if waited else None,
    }


def in_flight(times: JobTimes, search: StoredSearch) -> Row:
    """Return the mean number of candidates at each part of their way, from the first verdict to the last measurement.

    The part with the most candidates limits the rate, unless it has as many as there are workers for it.
    """
    stored = {each.report.job: each.at for each in search.reports if each.report.kind == "measure"}
    if len(stored) < 2:
        return {}
    begin, end = min(stored.values()), max(stored.values())
    parts: defaultdict[str, float] = defaultdict(float)
    for job, at in stored.items():
        candidate = job.split(":")[0]
        trace = trace_id(candidate)
        moments = {
            "to trace": search.proposed.get(candidate),
            "trace": times.taken.get(trace),
            "to measure": times.done.get(trace),
            "measure": times.taken.get(job),
            "to archive": times.done.get(job),
            "": at,
        }
        known = [(name, moment) for name, moment in moments.items() if moment is not None]
        for (name, since), (_, until) in pairwise(known):
            parts[name] += max(0.0, min(until, end) - max(since, begin))
    return {name: round(seconds / (end - begin), 2) for name, seconds in parts.items()}


LATE = ("retrace", "confirm", FINAL, FINAL_TRACE, NEAR_TRACE, BASELINES)
"""Purposes of jobs that no first verdict waits for."""


def _purpose(job: str) -> str:
    """Return the purpose of a job by its id; that of a confirm ends with the bundle of its incumbent."""
    purpose = purpose_of(job)
    return purpose if purpose in PURPOSES else "confirm"


PURPOSES = ("reference", "admission", "trace", "retrace", "measure", FINAL, FINAL_TRACE, NEAR_TRACE, BASELINES)


def row_of(search: StoredSearch, begun: float, ended: float, use: Utilisation, seconds: float) -> Row:
    """Compute the figures of one command.

    Args:
        search: The archive's rows.
        begun: When the command began, seconds since the epoch.
        ended: When it exited.
        use: Samples of the machine.
        seconds: Value of the stop rule.
    """
    jobs = [each for each in search.reports if each.report.kind == "measure"]
    measured = [each for each in jobs if purpose_of(each.report.job) != BASELINES]
    if not measured:
        return {"state": search.state, "reason": search.reason, "first_verdict_s": None, "whole_s": ended - begun}
    # Confirms at the end are part of the end.
    first, last = measured[0].at, measured[-1].at
    window = max(last - first, 1.0)
    firsts = _first_times(measured)
    related = [each.at for each in search.reports if each.report.speedup is not None]
    known = len(search.bundles) - len(set(search.bundles))
    kernels = {
        kind: sum(_kernel_s(each.report) for each in search.reports if each.report.kind == kind) for kind in KINDS
    }
    return {
        "state": search.state,
        "reason": search.reason,
        "first_verdict_s": round(first - begun, 1),
        "first_elite_s": round(search.placements[0][0] - begun, 1) if search.placements else None,
        "first_related_s": round(min(related) - begun, 1) if related else None,
        "judged_per_h": round(len(firsts) / window * 3600),
        "window_s": round(window, 1),
        "judged": len(firsts),
        "repeats": len(measured) - len(firsts),
        "verdicts": dict(Counter(search.outcomes).most_common()),
        "known_share": round(known / len(search.bundles), 3) if search.bundles else None,
        "busy_share": {kind: round(seconds / window, 3) for kind, seconds in kernels.items()},
        "card_share": use.card_share(first, last),
        "core_share": use.core_share(first, last),
        "jobs": dict(Counter(each.report.kind for each in search.reports)),
        "stages_s": _stages(search),
        "assembly_s": waits_for_assembly([each.report for each in measured]),
        "end_s": round(ended - last, 1),
        "ending_s": ending(search, first + seconds, ended),
        "examined_s": round(
            sum(sum(each.report.stages_s.values()) for each in search.reports if each.report.kind == "final"), 1
        ),
        "whole_s": round(ended - begun, 1),
        "best": {str(moment): _best(search, begun + moment) for moment in MOMENTS_S} | {"end": _best(search, ended)},
    }


def waits_for_assembly(reports: Sequence[Report]) -> Row:
    """Return the seconds that measurements waited for their machine code: mean, percentiles and maximum."""
    waited = sorted(report.stages_s.get("assemble", 0.0) for report in reports)
    tenths = {f"p{10 * tenth}": round(waited[len(waited) * tenth // 10], 3) for tenth in (5, 8, 9)}
    return {"mean": round(statistics.fmean(waited), 3), **tenths, "longest": round(waited[-1], 3)}


def ending(search: StoredSearch, stop: float, ended: float) -> Row:
    """Return the seconds from the stop rule to the end of the command, by part; none if the search was not done."""
    if search.ended is None:
        return {}
    settled, examined = search.ended, 0.0
    for each in search.reports:
        if each.report.kind == "final":
            examined = max(examined, each.at)
        else:
            settled = max(settled, each.at)
    moments = (stop, search.ended, settled, max(settled, examined), ended)
    parts = ("to done", "to settled", "to examined", "to exit")
    return {part: round(after - before, 1) for part, (before, after) in zip(parts, pairwise(moments), strict=True)}


KINDS = ("measure", "confirm", "final")


def _first_times(measured: Sequence[StoredReport]) -> dict[str, float]:
    """Return the time of the first report on each bundle whose checks ran on the device."""
    firsts: dict[str, float] = {}
    for each in measured:
        if each.report.checks or each.report.outcome is Outcome.CORRECT:
            firsts.setdefault(each.report.bundle, each.at)
    return firsts


def _kernel_s(report: Report) -> float:
    """Return the seconds that kernels ran in a report's timed samples, warm-ups and checked runs not counted."""
    raced = [samples for shape in report.shapes for samples in (shape.samples, shape.rival_samples) if samples]
    return sum(_sampled_us(samples) for samples in raced) / 1e6


def _sampled_us(samples: Samples) -> float:
    return samples.calls * (sum(samples.candidate_us) + sum(samples.other_us))


def _stages(search: StoredSearch) -> dict[str, float]:
    """Return the seconds spent by kind of job and stage, those below a second left out."""
    spent: defaultdict[str, float] = defaultdict(float)
    for each in search.reports:
        for stage, seconds in each.report.stages_s.items():
            spent[f"{each.report.kind} {stage}"] += seconds
    for stages in search.stages_s:
        for stage, seconds in stages.items():
            spent[f"trace {stage}"] += seconds
    return {name: round(seconds, 1) for name, seconds in sorted(spent.items()) if seconds >= 1}


def _best(search: StoredSearch, until: float) -> float | None:
    """Return the median speedup of the best elite placed until a time; None if there was none."""
    placed = [(objective, mid) for at, objective, mid in search.placements if at <= until]
    return round(max(placed)[1], 4) if placed else None


def run(operator: str, options: argparse.Namespace, device: str, add: Callable[[Row], None]) -> bool:
    """Run one command, and add its figures, before anything else that takes time.

    Returns:
        False if the benchmark was interrupted.
    """
    with tempfile.TemporaryDirectory() as folder, sampled(options.card) as use:
        home = Path(folder)
        command = [sys.executable, "-m", "kernelreef", "search", operator, "--device", device]
        command += ["--evaluations", str(EVALUATIONS), "--stop", f"seconds={options.seconds}", "--json"]
        command += ["--out", f"{folder}/out", *options.extra]
        environment = os.environ | {"REEF_DATA_DIR": folder, "REEF_LOG_LEVEL": "debug", "REEF_LOG_JSON": "1"}
        begun, told = time.time(), home / "stderr.txt"
        with told.open("w") as errors:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            cut = await_end(process, home, options)
            interrupted = False
        except KeyboardInterrupt:
            cut, interrupted = INTERRUPTED, True
        _end(process)
        ended, said = time.time(), told.read_text(errors="replace")[-SAID_CHARS:]
        row: Row = {"operator": operator, "device": device, "label": options.label, "seconds": options.seconds}
        figures: Row = {"state": "none", "reason": said}
        if (home / DATABASE_FILE).exists():
            search, log = read_search(home / DATABASE_FILE), home / WORKERS_LOG
            figures = row_of(search, begun, ended, use, options.seconds)
            if log.exists():
                times = read_times(log)
                figures |= path_of(times, begun) | {"in_flight": in_flight(times, search)}
        add({**row, **figures, "cut": cut, "status": process.returncode})
        if options.keep is not None:
            _keep(home, options.keep / f"{operator}-{int(begun)}", said)
            if not interrupted:
                _export(environment, options.keep / f"{operator}-{int(begun)}.zip")
        return not interrupted


def await_end(process: subprocess.Popen[bytes], home: Path, options: argparse.Namespace) -> str:
    """Wait until a command ends, or is to be ended. Returns the reason to end it; empty if it has ended."""
    until = time.monotonic() + options.seconds + options.patience_s
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
            return ""
        if time.monotonic() > until:
            return f"not ended {options.patience_s:g} s after its stop rule"
        if options.unexamined and _only_examines(home):
            return "without the examinations of its finalists"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command as Ctrl-C does, or kill it if that takes long."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
    process.wait()


def _only_examines(home: Path) -> bool:
    """Return True if a search is done and related to its baselines, and its finalists are examined."""
    path = home / DATABASE_FILE
    if not path.exists():
        return False
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            search = connection.execute(select(tables.searches)).one_or_none()
    except DatabaseError:
        return False  # Its tables are not there yet.
    finally:
        engine.dispose()
    if search is None or search.ended_at is None:
        return False
    if not search.baselines and any(Device.parse(name).measures for name in search.devices):
        return False
    taken, ended = read_times(home / WORKERS_LOG).taken, _epoch(search.ended_at)
    return any(_purpose(job) == FINAL_TRACE and at >= ended for job, at in taken.items())


def _keep(folder: Path, to: Path, said: str) -> None:
    """Keep a command's logs and archive, compressed."""
    to.mkdir(parents=True, exist_ok=True)
    (to / "stderr.txt").write_text(said)
    for file in (*folder.glob("*.log"), folder / DATABASE_FILE):
        if file.exists():
            (to / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))


def _export(environment: Mapping[str, str], to: Path) -> None:
    """Export the elites of a command's search as a zip file, which `benchmarks.agreement` reads."""
    command = [sys.executable, "-m", "kernelreef", "export", "--out", str(to)]
    told = {**environment, "REEF_LOCAL_WORKERS": "0"}
    done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=EXPORT_S, check=False)
    print(f"{to.name}: {'exported' if done.returncode == 0 else done.stderr[-500:]}", flush=True)


def main() -> None:
    """Run the commands, and write their rows; SIGTERM counts as Ctrl-C."""
    options = _options()
    signal.signal(signal.SIGTERM, _interrupt)
    device = options.device or device_of(options.card).name
    figures = FigureRows(options.out, "as_run", options.card)
    with closing(LineLog(options.out / "as_run.jsonl")) as lines:
        for row in lines.rows:
            figures.add(row, f"kept {row['operator']} {row['label']}")

        def add(row: Row) -> None:
            lines.add(row)
            figures.add(row, json.dumps(row))

        for operator in options.operators or OPERATORS:
            if not run(operator, options, device, add):
                break


def _interrupt(*_: object) -> None:
    """Interrupt the benchmark once: `timeout` sends its signal twice, to a process and to its group."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("operators", nargs="*", help=f"names; all of {', '.join(OPERATORS)} if none")
    options.add_argument("--seconds", type=int, default=240, help="of the stop rule")
    options.add_argument("--quick", action="store_true", help=f"all operators, {QUICK_S} s each")
    options.add_argument("--device", help="instead of the card's class, such as model:sm_90")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--label", default="", help="state of the code that is measured")
    options.add_argument("--extra", nargs="*", default=[], help="more options of `reef search`, after --")
    options.add_argument("--keep", type=Path, help="folder for the commands' logs, archives and zip files")
    options.add_argument("--unexamined", action="store_true", help="end without the examinations of finalists")
    options.add_argument("--patience-s", type=float, default=PATIENCE_S, help="beyond --seconds, until it is given up")
    options.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.operators, chosen.seconds = list(OPERATORS), QUICK_S
    return chosen


if __name__ == "__main__":
    main()
