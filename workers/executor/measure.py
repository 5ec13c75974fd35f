"""The executor that measures: `python -m workers.executor measure`."""

import argparse
from contextlib import ExitStack

import torch

from workers import sandbox
from workers.devices import open_device
from workers.errors import BadMessage
from workers.executor import OpenedExecutor
from workers.protocol import (
    ExecutorReady,
    ExecutorResult,
    ExecutorTask,
    FinalJob,
    MeasureJob,
    ProfileJob,
    TraceJob,
)


def open_executor(options: argparse.Namespace, resources: ExitStack) -> OpenedExecutor:
    """Open the device, and close it in the end.

    Raises:
        ToolMissing: If this machine lacks what the device needs.
    """
    torch.set_num_threads(1)
    device = open_device(options.device, options.worker, options.card, options.data)
    resources.callback(device.close)

    def work(job: ExecutorTask) -> ExecutorResult:
        if isinstance(job, TraceJob):
            raise BadMessage("this executor measures; it cannot trace")
        match job:
            case MeasureJob():
                return device.measure(job)
            case FinalJob():
                return device.examine(job)
            case ProfileJob():
                return device.profile(job)
        return device.confirm(job)

    ready = ExecutorReady(jail=sandbox.probe(), versions=device.versions())
    return OpenedExecutor(ready, work, device.foresee, device.is_prepared, device.rest)
