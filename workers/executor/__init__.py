"""The executor: a warm process with torch and triton imported that reads one job per line and writes one answer each.

A worker starts `python -m workers.executor KIND …` in the environment that it needs, and `python -m workers bench`
becomes that. Answers have a descriptor of their own: other output, such as a library's at import, goes to standard
error.
Candidates run in sandboxes that it forks. Each kind is a module of its own, because neither needs the other's imports.
"""

import argparse
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import ValidationError

from workers.errors import BadMessage, JobWaits, Transient, WorkerError
from workers.logs import configure, ids_of
from workers.options import read_seat
from workers.protocol import (
    FIRST_CARD,
    MESSAGE,
    Bundle,
    Device,
    ExecutorFailure,
    ExecutorForesight,
    ExecutorReady,
    ExecutorResult,
    ExecutorTask,
    PreparedJobs,
    PreparedQuery,
    WireModel,
)

REST_S = 0.25
"""Seconds after which an idle executor looks if others wait for the card's memory that it holds."""
_CHUNK = 1 << 20

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OpenedExecutor:
    """A warm executor.

    Attributes:
        ready: Its first message.
        work: Does a job.
        foresee: Prepares the bundle of a later job.
        is_prepared: Returns True if a job on a foreseen bundle need not wait for its preparation.
        rest: Called every `REST_S` seconds without a message.
    """

    ready: ExecutorReady
    work: Callable[[ExecutorTask], ExecutorResult]
    foresee: Callable[[Bundle], None]
    is_prepared: Callable[[Bundle], bool]
    rest: Callable[[], None] = lambda: None


Open = Callable[[argparse.Namespace, ExitStack], OpenedExecutor]
"""Warms an executor up, according to its options."""


def main(options: argparse.Namespace, open_executor: Open) -> int:
    """Serve one executor until standard input ends. Returns the exit status."""
    channel = os.fdopen(os.dup(options.answers), "wb")
    configure(os.environ, worker=options.worker)

    def say(answer: WireModel) -> None:
        channel.write(answer.model_dump_json().encode() + b"\n")
        channel.flush()

    with ExitStack() as resources:
        try:
            executor = open_executor(options, resources)
        except WorkerError as error:
            say(_failure(error))
            return 1
        say(executor.ready)
        serve(executor, lines_from(sys.stdin.fileno(), executor.rest), say)
    return 0


def lines_from(descriptor: int, rest: Callable[[], None], rest_s: float = REST_S) -> Iterator[bytes]:
    """Yield the lines that a descriptor brings until it ends, and call `rest` whenever it brings nothing for a while.

    Args:
        descriptor: The descriptor.
        rest: Called between two lines only.
        rest_s: Seconds without a line until it is called, again and again.
    """
    heard = b""
    while True:
        while not select.select([descriptor], [], [], rest_s)[0]:
            rest()
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        *lines, heard = (heard + chunk).split(b"\n")
        yield from lines
    if heard:
        yield heard


def serve(executor: OpenedExecutor, lines: Iterable[bytes], say: Callable[[WireModel], None]) -> None:
    """Answer every job with a report, or with an `ExecutorFailure` if our machine failed."""
    foreseen: dict[str, Bundle] = {}
    for line in lines:
        try:
            message = _read(line)
            if isinstance(message, ExecutorForesight):
                foreseen[message.job] = message.bundle
                executor.foresee(message.bundle)
            elif isinstance(message, PreparedQuery):
                # Jobs that nobody asks about any more are done or were taken back.
                foreseen = {job: foreseen[job] for job in message.jobs if job in foreseen}
                say(PreparedJobs(jobs=tuple(job for job in foreseen if executor.is_prepared(foreseen[job]))))
            else:
                log.debug("job begun", kind=message.kind, **ids_of(message))
                say(executor.work(message))
        except WorkerError as error:
            say(_failure(error))


def _read(line: bytes) -> ExecutorTask | ExecutorForesight | PreparedQuery:
    try:
        return MESSAGE.validate_json(line)
    except ValidationError as error:
        raise BadMessage(f"not a job: {error}") from error


def _failure(error: WorkerError) -> ExecutorFailure:
    return ExecutorFailure(
        error=f"{type(error).__name__}: {error}",
        transient=isinstance(error, Transient),
        waits=isinstance(error, JobWaits),
    )


def parse(kind: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of an executor of a kind."""
    parser = argparse.ArgumentParser(prog=f"python -m workers.executor {kind}", description="Serve jobs, one a line.")
    parser.add_argument("--device", type=Device.parse, help="device to measure on, such as model:sm_90")
    parser.add_argument("--card", type=read_seat, default=FIRST_CARD, metavar="cuda:N", help="card to measure on")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder for data that outlives the executor")
    parser.add_argument("--worker", default="bench", help="worker id in the reports")
    parser.add_argument("--answers", type=int, default=1, metavar="FD", help="file descriptor for answers")
    parser.add_argument("--with-parent", type=int, metavar="PID", help="end when this parent process ends")
    return parser.parse_args(arguments)
