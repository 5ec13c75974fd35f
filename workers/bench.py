"""The warm process that does the work: torch and triton imported, one job a line in, one answer a line out.

`python -m workers bench …` starts it, in the environment it needs and with its standard output set aside for answers:
whatever else writes there, be it a library at import, ends up on standard error. Candidates run in jails that it forks.
"""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import structlog
import torch
from pydantic import ValidationError

from workers import jail, tracing
from workers.devices import open_device
from workers.devices.base import DeviceBench
from workers.errors import BadMessage, Transient, WorkerError
from workers.logs import configure, ids_of
from workers.options import read_card
from workers.protocol import (
    MESSAGE,
    AnyReport,
    Bundle,
    Device,
    Failure,
    FinalJob,
    Foresight,
    Job,
    MeasureJob,
    Ready,
    TraceJob,
    TraceReport,
    Wire,
)
from workers.recordings import Recordings

log = structlog.get_logger(__name__)

Work = Callable[[Job], AnyReport]
Foresee = Callable[[Bundle], None]

TRACE_NICENESS = 5
"""Added to the niceness of a bench that traces: a card that waits for a core costs more than a candidate that does."""
TRACED_WITH = ("torch", "triton")
"""Packages whose version decides what a trace yields."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve one bench until standard input ends; returns the exit status."""
    options = _parse(arguments)
    channel = os.fdopen(options.answers, "wb")
    torch.set_num_threads(1)
    configure(os.environ, worker=options.worker)

    def say(answer: Wire) -> None:
        channel.write(answer.model_dump_json().encode() + b"\n")
        channel.flush()

    with ExitStack() as resources:
        try:
            bench = _trace_bench(options) if options.kind == "trace" else _device_bench(options, resources)
        except WorkerError as error:
            say(_failure(error))
            return 1
        work, foresee, ready = bench
        say(ready)
        serve(work, sys.stdin.buffer, say, foresee)
    return 0


def serve(work: Work, lines: Iterable[bytes], say: Callable[[Wire], None], foresee: Foresee) -> None:
    """Answer every job with a report, or with a failure of ours."""
    for line in lines:
        try:
            message = _read(line)
            if isinstance(message, Foresight):
                foresee(message.bundle)
            else:
                log.debug("job begun", kind=message.kind, **ids_of(message))
                say(work(message))
        except WorkerError as error:
            say(_failure(error))


def _read(line: bytes) -> Job | Foresight:
    try:
        return MESSAGE.validate_json(line)
    except ValidationError as error:
        raise BadMessage(f"not a job: {error}") from error


def _failure(error: WorkerError) -> Failure:
    return Failure(error=f"{type(error).__name__}: {error}", transient=isinstance(error, Transient))


def _trace_bench(options: argparse.Namespace) -> tuple[Work, Foresee, Ready]:
    os.nice(TRACE_NICENESS)
    # Nothing that traces has business with a card, and no jail lets it near one.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    recorded = options.device if options.device is not None and options.device.kind == "recorded" else None
    recordings = None if recorded is None else Recordings(recorded, options.data)

    def work(job: Job) -> TraceReport:
        if not isinstance(job, TraceJob) or job.device != recorded:
            raise BadMessage(f"this bench traces; it cannot {job.kind} on {job.device}")
        if recordings is None or job.source is None:
            return tracing.trace(job, options.worker)
        return recordings.trace(job, job.source, options.worker)

    tracing.warm()
    versions = {package: importlib.metadata.version(package) for package in TRACED_WITH}
    return work, lambda _: None, Ready(jail=jail.probe(), versions=versions)


def _device_bench(options: argparse.Namespace, resources: ExitStack) -> tuple[Work, Foresee, Ready]:
    bench: DeviceBench = open_device(options.device, options.worker, options.card, options.data)
    resources.callback(bench.close)

    def work(job: Job) -> AnyReport:
        if isinstance(job, TraceJob):
            raise BadMessage("this bench measures; it cannot trace")
        match job:
            case MeasureJob():
                return bench.measure(job)
            case FinalJob():
                return bench.examine(job)
        return bench.confirm(job)

    return work, bench.foresee, Ready(jail=jail.probe(), versions=bench.versions())


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.bench", description="Serve jobs, one a line.")
    parser.add_argument("kind", choices=("trace", "measure"))
    parser.add_argument("--device", type=Device.parse, help="what to measure on, such as model:sm_90")
    parser.add_argument("--card", type=read_card, default=0, metavar="cuda:N", help="which card to measure on")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where measuring may leave what outlives the bench")
    parser.add_argument("--worker", default="bench", help="the id that reports carry")
    parser.add_argument("--answers", type=int, default=1, metavar="FD", help="where answers go")
    options = parser.parse_args(arguments)
    if options.kind == "measure" and options.device is None:
        parser.error("measure needs --device")
    return options


if __name__ == "__main__":
    sys.exit(main())
