"""Worker processes of `reef worker`: choose them from the options, and run them until a signal."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from service.errors import InvalidInput
from service.fleet.devices import card_named, local_cards, require_judgeable
from service.fleet.pool import JoinInvitation, WorkerPool, WorkerStart
from service.tasks import end
from workers.protocol import CardShare, Device
from workers.targets import TARGETS


@dataclass(frozen=True)
class WorkerCommand:
    """Worker processes for one machine.

    Attributes:
        tracing: Options of workers that trace or judge on a model; empty without such workers.
        tracers: Number of these workers.
        cards: Cards to measure on, each with its hardware class, number and number of workers that share it.
    """

    tracing: tuple[str, ...]
    tracers: int
    cards: tuple[tuple[Device, CardShare], ...]


def plan_workers(*, trace: int, target: str | None, cards: Sequence[str], device: str | None) -> WorkerCommand:
    """Choose the worker processes for some options.

    Args:
        trace: Number of workers that trace.
        target: Target to trace for; that of the model or the first card if None.
        cards: Cards to measure on, such as `cuda:0`, or `cuda:0/3` for three workers that share one.
        device: Name of a model to judge on too; without tracing one process does that.

    Raises:
        InvalidInput: If there is nothing to do, or a name is invalid; names the option.
    """
    measuring = tuple(_card(name) for name in cards)
    if len({seat.card for _, seat in measuring}) < len(measuring):
        raise InvalidInput("a card is named twice; write cuda:0/2 for two workers that share it", "--measure")
    model = None if device is None else _model(device)
    if not (trace or measuring or model):
        raise InvalidInput("nothing to do: give --trace N, --measure cuda:0, or --device model:<target>")
    tracing: tuple[str, ...] = () if model is None else ("--device", model.name)
    if trace:
        devices = ([] if model is None else [model]) + [of for of, _ in measuring]
        tracing = ("--trace", "--target", _target(target, devices), *tracing)
    return WorkerCommand(tracing, trace or int(model is not None), measuring)


async def run_workers(plan: WorkerCommand, queue: str | JoinInvitation, data: Path, start: WorkerStart) -> bool:
    """Keep workers running until SIGINT or SIGTERM; they then finish or return their jobs.

    Args:
        plan: Workers to run.
        queue: Address of the queue, or a service to join.
        data: Folder for results kept between measurements.
        start: Start of the processes.

    Returns:
        True if a signal ended the run; False if the service dismissed every worker.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pool = WorkerPool(queue, size=plan.tracers, data=data, start=start)
    try:
        if plan.tracers:
            pool.keep(plan.tracing, plan.tracers)
        for device, seat in plan.cards:
            pool.keep_measuring(device, seat)
        asked = asyncio.create_task(stop.wait())
        unwanted = asyncio.create_task(pool.dismissed())
        await asyncio.wait((asked, unwanted), return_when=asyncio.FIRST_COMPLETED)
        await end([task for task in (asked, unwanted) if not task.done()])
        return stop.is_set()
    finally:
        await pool.close()


def _card(name: str) -> tuple[Device, CardShare]:
    """Return the hardware class of a card of this machine, and its number of sharers."""
    try:
        seat = CardShare.parse(name)
    except ValueError as error:
        raise InvalidInput(str(error), "--measure") from error
    device = card_named(f"cuda:{seat.card}", local_cards(), "--measure")
    require_judgeable(device, "--measure")
    return device, seat


def _model(name: str) -> Device:
    try:
        device = Device.parse(name)
    except ValueError as error:
        raise InvalidInput(str(error), "--device") from error
    require_judgeable(device, "--device")
    if device.measures:
        raise InvalidInput(f"'{name}' is no model; give the number of its card, such as --measure cuda:0", "--device")
    return device


def _target(target: str | None, devices: Sequence[Device]) -> str:
    target = target or next((device.target for device in devices), None)
    if target is None:
        raise InvalidInput("--trace needs --target if neither --device nor --measure is given", "--target")
    if target not in TARGETS:
        raise InvalidInput(f"'{target}' is not a known target; known: {', '.join(TARGETS)}", "--target")
    return target
