"""The executor that traces, and measures on a device without a card: `python -m workers.executor both`.

A worker does one job at a time. Without a card one process can do both, so that libraries are imported once and each
kernel is assembled once.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack

from workers import trace_job
from workers.executor import OpenedExecutor, measure, trace
from workers.protocol import ExecutorReady, ExecutorResult, ExecutorTask, TraceJob


def warm() -> Iterator[frozenset[str]]:
    """Run once what executors need. Yields the kinds whose executors find that done, as soon as it is.

    References need more, which takes as long as all else here behind the imports: the first job that needs it does it.

    Raises:
        SandboxUnsafe: If this machine cannot kill a sandbox as a process tree.
    """
    trace_job.warm_assembly()
    yield frozenset({"measure"})
    trace_job.warm()
    yield frozenset({"trace", "both"})


def open_executor(options: argparse.Namespace, resources: ExitStack) -> OpenedExecutor:
    """Open both.

    Raises:
        ToolMissing: If this machine lacks what the device needs.
    """
    tracer, measurer = trace.open_executor(options, resources), measure.open_executor(options, resources)

    def work(job: ExecutorTask) -> ExecutorResult:
        return (tracer if isinstance(job, TraceJob) else measurer).work(job)

    ready = ExecutorReady(jail=tracer.ready.jail, versions={**tracer.ready.versions, **measurer.ready.versions})
    return OpenedExecutor(ready, work, measurer.foresee, measurer.is_prepared, measurer.rest)
