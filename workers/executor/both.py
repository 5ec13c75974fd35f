"""The executor that traces, and measures on a device without a card: `python -m workers.executor both`.

A worker does one job at a time. Without a card one process can do both, so that libraries are imported once and each
kernel is assembled once.
"""

import argparse
from contextlib import ExitStack

from workers.executor import OpenedExecutor, measure, trace
from workers.protocol import ExecutorReady, ExecutorResult, ExecutorTask, TraceJob


def open_executor(options: argparse.Namespace, resources: ExitStack) -> OpenedExecutor:
    """Open both.

    Raises:
        ToolMissing: If this machine lacks what the device needs.
    """
    tracer, measurer = trace.open_executor(options, resources), measure.open_executor(options, resources)

    def work(job: ExecutorTask) -> ExecutorResult:
        return (tracer if isinstance(job, TraceJob) else measurer).work(job)

    ready = ExecutorReady(jail=tracer.ready.jail, versions={**tracer.ready.versions, **measurer.ready.versions})
    return OpenedExecutor(ready, work, measurer.foresee)
