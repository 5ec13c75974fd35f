"""An executor that measures, whose timed rounds are recorded.

    python -m benchmarks.observed_executor --rounds rounds.jsonl --device h200 --card cuda:0/3 --data DIR

`benchmarks.agreement` starts it. Each round is a line: every sample's time, clock and start, by which sides and calls;
when it was timed; and clocks, temperatures and power from the driver's library, read right after it while nothing else
runs. Nothing else differs from an executor of a worker.
"""

import argparse
import ctypes
import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.safe_python import executor_environment

CLOCKS = {"sm_mhz": 1, "memory_mhz": 2, "video_mhz": 3}
"""Clocks by their numbers in NVML."""
FIELDS = {"memory_c": 82, "power_now_mw": 186}
"""Further readings by their field numbers in NVML."""
NVML = "libnvidia-ml.so.1"


class _FieldValue(ctypes.Structure):
    """`nvmlFieldValue_t`."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    ]


class CardReadings:
    """Readings of a card through NVML; none if the library or the card is not there."""

    def __init__(self, address: str) -> None:
        self._handle = ctypes.c_void_p()
        try:
            self._library = ctypes.CDLL(NVML)
            failed = self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByPciBusId_v2(
                address.encode(), ctypes.byref(self._handle)
            )
        except (OSError, AttributeError):
            failed = 1
        self._is_open = not failed

    def read(self) -> dict[str, int]:
        """Return what can be read now."""
        if not self._is_open:
            return {}
        found = {name: self._ask("nvmlDeviceGetClockInfo", ctypes.c_uint, number) for name, number in CLOCKS.items()}
        found["gpu_c"] = self._ask("nvmlDeviceGetTemperature", ctypes.c_uint, 0)
        found["power_mw"] = self._ask("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        found["throttled_by"] = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        values = (_FieldValue * len(FIELDS))(*(_FieldValue(field=number) for number in FIELDS.values()))
        if not self._library.nvmlDeviceGetFieldValues(self._handle, len(FIELDS), values):
            found |= {
                name: value.value & 0xFFFFFFFF if not value.status else None
                for name, value in zip(FIELDS, values, strict=True)
            }
        return {name: value for name, value in found.items() if value is not None}

    def _ask(self, function: str, kind: type[Any], *arguments: int) -> int | None:
        value = kind()
        status = getattr(self._library, function)(self._handle, *map(ctypes.c_uint, arguments), ctypes.byref(value))
        return None if status else int(value.value)


@dataclass
class Observer:
    """Records the rounds of one executor.

    Attributes:
        path: File of lines that several executors add to.
        condition: Text that each line carries.
        read: Returns readings of the card.
        job: Id of the job that is under way.
    """

    path: Path
    condition: str = ""
    read: Callable[[], Mapping[str, int]] = dict
    job: str = ""
    _bundles: dict[Any, Any] = field(default_factory=dict)
    _operator: str = ""
    _round: Any = None

    def sent(self, order: Any) -> None:
        """Note an order to the runner."""
        match order.order:
            case "load":
                self._bundles[order.side], self._operator = order.bundle, order.operator.name
            case "prepare":
                self._round = order.round

    def answered(self, order: Any, reply: Any) -> None:
        """Add a line about a timed round."""
        if order.order != "time" or reply.answer != "timed" or self._round is None:
            return
        samples, bundles = self._round.samples, self._bundles
        line = {
            "condition": self.condition,
            "job": self.job,
            "executor": os.getpid(),
            "at_s": round(time.time(), 4),
            "operator": self._operator,
            "shape": self._plan(self._round, "candidate").shape.key,
            "control": bundles["candidate"].kernels.keys() == bundles["pacer"].kernels.keys(),
            "sides": "".join(sample.side[0] for sample in samples),
            "calls": [len(sample.slots) for sample in samples],
            "us": _rounded(reply.samples_us, 3),
            "mhz": _rounded(reply.clocks_mhz, 1),
            "holds_us": _rounded(reply.holds_us, 1),
            "wall_us": round(reply.wall_us, 1),
            "card": dict(self.read()),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def _plan(self, order: Any, side: str) -> Any:
        return self._bundles[side].plans[order.plans[side]]


def _rounded(values: Any, digits: int) -> list[float]:
    return [round(value, digits) for value in values]


def observe(observer: Observer, processes: Any, device: Any) -> None:
    """Have an observer see every order that an executor of this process sends its runner, and the answers.

    Args:
        observer: The observer.
        processes: The class of the executor's card processes.
        device: The class of its device.
    """
    ask, confirm = processes._ask_runner, device.confirm

    def watched(self: Any, order: Any, limit_s: float) -> Any:
        observer.sent(order)
        reply = ask(self, order, limit_s)
        if observer.read is dict:
            observer.read = CardReadings(self.opened.address).read
        observer.answered(order, reply)
        return reply

    def begun(self: Any, job: Any) -> Any:
        observer.job = job.id
        return confirm(self, job)

    processes._ask_runner, device.confirm = watched, begun


def main() -> None:
    """Be an executor. Answers go to a copy of standard output, as those of `python -m workers bench` do.

    Modules that import torch follow once the environment is an executor's.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=Path, required=True, help="file of lines to add to")
    parser.add_argument("--condition", default="", help="text that each line carries")
    options, rest = parser.parse_known_args()
    answers = os.dup(1)
    os.dup2(2, 1)
    environment = executor_environment(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    processes, cuda = (importlib.import_module(f"workers.devices.{name}") for name in ("card_processes", "cuda"))
    observe(Observer(options.rounds, options.condition), processes.CardProcesses, cuda.CudaDevice)
    importlib.import_module("workers.executor.start").run(["measure", *rest, "--answers", str(answers)])


if __name__ == "__main__":
    main()
