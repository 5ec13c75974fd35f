"""The program that runs under the sanitizer: replays plans, each on its own memory. It runs no candidate's Python.

    python -m workers.sanitizer.replay_program REQUEST LOG

REQUEST is a file with a `ReplayRequest`. The program writes one `BufferAllocation` per line to LOG before anything runs
on it, so findings get names even if the card is lost. Memory is freed only when the program ends, so no two plans share
an address. When the card is full, it ends early with a `SanitizerMemoryShort` as the last line.
"""

import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import torch

from workers import driver
from workers.inputs import draw
from workers.protocol import Operator, Plan
from workers.runner.replay import LoadedKernels, ReplayedPlan
from workers.sanitizer.memory import Allocations, in_order, write
from workers.sanitizer.messages import BufferAllocation, ReplayRequest, SanitizerMemoryShort

LOST = 3
"""Exit status if a launch made the card unusable, as it does when memcheck stops a kernel."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the request of a file. Returns the exit status."""
    request_file, log_file = (Path(name) for name in (sys.argv[1:] if arguments is None else arguments))
    request = ReplayRequest.model_validate_json(request_file.read_bytes())
    with log_file.open("w") as log:
        try:
            replay(request, log)
        except driver.DriverError as error:
            sys.stderr.write(f"{error.name}\n")
            return LOST
    return 0


def replay(request: ReplayRequest, log: TextIO) -> None:
    """Replay each plan once and wait for it, up to the first one that does not fit in the card's memory.

    Raises:
        DriverError: If the card reports another error.
        CannotRun: If the card cannot run a plan.
    """
    driver.open_card(request.card)
    stream, memory = driver.make_stream(), Allocations(request.card)
    code = {digest: b64decode(text) for digest, text in request.machine_code.items()}
    kernels = LoadedKernels(request.bundle, code)
    for index in request.plans:
        plan = request.bundle.plans[index]
        try:
            _replay(request, ReplayedPlan(kernels, plan, memory), memory, stream, log)
        except (driver.DriverError, torch.OutOfMemoryError) as error:
            if isinstance(error, driver.DriverError) and error.name != driver.OUT_OF_MEMORY:
                raise
            log.write(SanitizerMemoryShort(plan=index, shape=plan.shape.key).model_dump_json() + "\n")
            return


def _replay(request: ReplayRequest, loaded: ReplayedPlan, memory: Allocations, stream: int, log: TextIO) -> None:
    plan = loaded.plan
    slot = memory.slot(request.bundle, plan)
    for allocation in allocations_of(request.operator, plan, list(in_order(slot)), memory):
        log.write(allocation.model_dump_json() + "\n")
    log.flush()
    given = draw(request.operator, plan.shape, "normal", bytes.fromhex(request.seed))
    for address, values in zip(slot.buffers, given, strict=False):
        write(stream, address, values)
    loaded.call(slot, stream)
    driver.synchronise(stream)


def allocations_of(
    operator: Operator, plan: Plan, addresses: Sequence[int], memory: Allocations
) -> Iterator[BufferAllocation]:
    """Yield the allocations of a plan's run, with their names.

    Args:
        operator: Gives the names of inputs and outputs.
        plan: The plan.
        addresses: Addresses of its buffers by id, then of its scratch.
        memory: Gives the sizes.
    """
    for index, address in enumerate(addresses):
        yield BufferAllocation(
            shape=plan.shape.key,
            name=name_of(operator, plan, index),
            address=address,
            bytes=memory.sizes[address],
            functions=_functions_on(plan, index),
        )


def name_of(operator: Operator, plan: Plan, buffer: int) -> str:
    """Return a buffer's name for people; buffers that the plan does not number are scratch."""
    if buffer >= len(plan.buffers):
        return "a kernel's scratch"
    if buffer < len(operator.given):
        return f"input '{operator.given[buffer].name}'"
    for output, view in zip(operator.results, plan.outputs, strict=False):
        if view.buffer == buffer:
            return f"output '{output.name}'"
    return f"buffer {buffer}"


def _functions_on(plan: Plan, buffer: int) -> tuple[str, ...]:
    """Return the kernels that receive a buffer; all kernels for scratch."""
    given = (
        launch.function
        for launch in plan.launches
        if buffer >= len(plan.buffers) or any(item.buffer == buffer for item in launch.memory)
    )
    return tuple(dict.fromkeys(given))


if __name__ == "__main__":
    sys.exit(main())
