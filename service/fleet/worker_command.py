"""`reef worker`: which worker processes to run on a machine, and running them until somebody says stop."""

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from service.errors import InvalidInput
from service.fleet.devices import local_cards, require_judgeable
from service.fleet.pool import COMMAND, JoinInvitation, WorkerPool
from service.tasks import end
from workers.protocol import CardShare, Device, device_of_card
from workers.targets import TARGETS


@dataclass(frozen=True)
class WorkerCommand:
    """Worker processes for one machine.

    Attributes:
        tracing: Options of those that trace or judge on a model; empty if there are none.
        tracers: How many of them.
        cards: Those that measure: the hardware class, which card, and how many share it.
    """

    tracing: tuple[str, ...]
    tracers: int
    cards: tuple[tuple[Device, CardShare], ...]


def plan_workers(*, trace: int, target: str | None, cards: Sequence[str], device: str | None) -> WorkerCommand:
    """Work out which processes are wanted.

    Args:
        trace: How many trace.
        target: What they trace for; that of the model or the first card if None.
        cards: Cards to measure on, such as `cuda:0`, or `cuda:0/3` for three workers that share one.
        device: Name of a model to judge on besides; without tracing one process does that.

    Raises:
        BadInput: If there is nothing to do, or a name cannot be right; names the option.
    """
    measuring = tuple(_card(name) for name in cards)
    if len({seat.card for _, seat in measuring}) < len(measuring):
        raise InvalidInput("a card is named twice; cuda:0/2 has two workers share it", "--measure")
    model = None if device is None else _model(device)
    if not (trace or measuring or model):
        raise InvalidInput("nothing to do: say --trace N, --measure cuda:0, or --device model:<target>")
    tracing: tuple[str, ...] = () if model is None else ("--device", model.name)
    if trace:
        devices = ([] if model is None else [model]) + [of for of, _ in measuring]
        tracing = ("--trace", "--target", _target(target, devices), *tracing)
    return WorkerCommand(tracing, trace or int(model is not None), measuring)


async def run_workers(
    plan: WorkerCommand, queue: str | JoinInvitation, data: Path, *, command: Sequence[str] = COMMAND
) -> bool:
    """Keep the workers running until SIGINT or SIGTERM; they then finish or give back their jobs.

    Args:
        plan: Which workers.
        queue: Where the queue is, or how to join.
        data: Folder for what measuring leaves.
        command: What starts a worker, without its options.

    Returns:
        Whether somebody asked to stop; False if the service wants none of the workers any more.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pool = WorkerPool(queue, size=plan.tracers, data=data, command=command)
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
    """The hardware class of a card of this machine, and who shares it."""
    try:
        seat = CardShare.parse(name)
    except ValueError as error:
        raise InvalidInput(str(error), "--measure") from error
    here = local_cards()
    if seat.card >= len(here):
        raise InvalidInput(
            f"this machine has no cuda:{seat.card}; cards here: {', '.join(here) or 'none'}", "--measure"
        )
    device = device_of_card(here[seat.card])
    if device is None:
        raise InvalidInput(f"{name} is '{here[seat.card]}', which is of no hardware class we know", "--measure")
    require_judgeable(device, "--measure")
    return device, seat


def _model(name: str) -> Device:
    try:
        device = Device.parse(name)
    except ValueError as error:
        raise InvalidInput(str(error), "--device") from error
    require_judgeable(device, "--device")
    if device.measures:
        raise InvalidInput(f"name the card to measure on: --measure cuda:0, if that is your {name}", "--device")
    return device


def _target(target: str | None, devices: Sequence[Device]) -> str:
    target = target or next((device.target for device in devices), None)
    if target is None:
        raise InvalidInput("--trace needs --target where there is neither --device nor --measure", "--target")
    if target not in TARGETS:
        raise InvalidInput(f"'{target}' is no target we have a sheet of; known: {', '.join(TARGETS)}", "--target")
    return target
