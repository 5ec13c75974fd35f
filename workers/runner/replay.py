"""Replay: a bundle's kernels on the card, and a plan's steps on a slot. No candidate's host code runs here.

kernels = LoadedKernels(bundle, machine_code)
plan = ReplayedPlan(kernels, bundle.plans[0], arena)
plan.call(slot, stream)
"""

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import copysign, inf

from workers import driver
from workers.assembler.machine import ENTRY
from workers.commands import RunSlot
from workers.protocol import DTYPE_BYTES, Bundle, Copy, Fill, HostDescriptor, Kernel, Launch, Number, Plan, Pointer
from workers.runner.arena import PlanMemory
from workers.runner.slots import CannotRun, SlotLayout

WARP = 32
"""Threads per warp on every NVIDIA card."""
_HALF_OVERFLOW = 65520.0
"""The least number that rounds to infinity in float16."""
CLUSTERS_FROM = (9, 0)
"""Minimum compute capability for clusters."""

Step = Callable[[int], None]
"""Enqueues something on a stream."""


class LoadedKernels:
    """A bundle's kernels, each loaded on first use."""

    def __init__(self, bundle: Bundle, machine_code: Mapping[str, bytes]) -> None:
        """Keep machine code by kernel digest; the card is the one that is open in this thread."""
        self.bundle = bundle
        self._machine_code = machine_code
        self._card = driver.current_card()
        self._functions: dict[str, driver.DriverFunction] = {}

    def launcher(self, launch: Launch) -> driver.Launcher:
        """Return a launch, ready to be enqueued.

        Raises:
            CannotRun: If the card cannot start it.
            DriverError: If the machine code is not for this card.
        """
        kernel = self.bundle.kernels[launch.kernel]
        self._check_card(launch, kernel)
        function = self._function(launch.kernel, kernel)
        threads, shared = kernel.num_warps * WARP, kernel.shared_bytes
        if threads > function.threads:
            raise CannotRun(f"'{launch.function}' starts {threads} threads; at most {function.threads} are possible")
        if shared + function.shared_bytes > self._card.sheet.shared_block_bytes:
            raise CannotRun(_too_much_shared(launch, shared + function.shared_bytes, self._card))
        if kernel.num_ctas == 1:
            return driver.make_launcher(function, launch.grid, threads, shared)
        clusters = driver.make_cluster_launcher(function, launch.grid, threads, shared, kernel.num_ctas)
        if clusters is None:
            raise CannotRun(f"'{launch.function}' uses clusters of {kernel.num_ctas}: too many for this card")
        return clusters

    def local_bytes(self, launch: Launch) -> int:
        """Return the local memory per thread of a launch.

        Raises:
            DriverError: If the machine code is not for this card.
        """
        return self._function(launch.kernel, self.bundle.kernels[launch.kernel]).local_bytes

    def close(self) -> None:
        """Unload the kernels. None of their launches may be under way. Idempotent."""
        while self._functions:
            driver.unload(self._functions.popitem()[1])

    def _check_card(self, launch: Launch, kernel: Kernel) -> None:
        card = self._card
        if kernel.shared_bytes > card.sheet.shared_block_bytes:
            raise CannotRun(_too_much_shared(launch, kernel.shared_bytes, card))
        if kernel.num_ctas > 1 and card.capability < CLUSTERS_FROM:
            raise CannotRun(f"'{launch.function}' uses clusters, which {card.name} does not have")
        blocks = (launch.grid[0] * kernel.num_ctas, *launch.grid[1:])
        if any(size > limit for size, limit in zip(blocks, card.grid, strict=True)):
            raise CannotRun(f"'{launch.function}' starts {blocks} blocks; {card.name} allows {card.grid} at most")

    def _function(self, digest: str, kernel: Kernel) -> driver.DriverFunction:
        if digest not in self._functions:
            code = self._machine_code[digest]
            self._functions[digest] = driver.load_function(code, ENTRY, kernel.shared_bytes)
        return self._functions[digest]


class ReplayedPlan:
    """A plan whose kernels are on the card.

    Attributes:
        plan: The plan.
        layout: The layout of its slots.
        local_bytes: Maximum local memory per thread over its launches.
    """

    def __init__(self, kernels: LoadedKernels, plan: Plan, arena: PlanMemory) -> None:
        """Load the kernels that the plan launches; its slots will be in the arena.

        Raises:
            CannotRun: If the card cannot run it.
            DriverError: If the machine code is not for this card.
        """
        self.plan = plan
        self.layout = SlotLayout(kernels.bundle, plan)
        self._arena = arena
        for step in plan.steps:
            if isinstance(step, Fill | Copy):
                _check_aligned(step)
        self._launchers = [kernels.launcher(launch) for launch in plan.launches]
        self.local_bytes = max((kernels.local_bytes(launch) for launch in plan.launches), default=0)

    def bind(self, slot: RunSlot) -> Step:
        """Return all steps of the plan on a slot, checked and ready to be enqueued many times.

        Raises:
            CannotRun: If the arena is too small for the slot.
            ValueError: If the slot does not hold what the plan needs.
        """
        self.layout.check(slot, self._arena.bytes)
        launches = iter(zip(self._launchers, slot.scratch, strict=True))
        steps: list[Step] = []
        on_tensors = False
        for step in self.plan.steps:
            match step:
                case Launch():
                    steps.append(self._bind_launch(step, slot, *next(launches)))
                case Fill() | Copy():
                    steps.append(self._bind_tensors(step, slot))
                    on_tensors = True
        return partial(self._enqueue_on_tensors if on_tensors else _enqueue, steps)

    def call(self, slot: RunSlot, stream: int) -> None:
        """Enqueue all steps of the plan once.

        Raises:
            CannotRun: If the arena is too small for the slot.
            ValueError: If the slot does not hold what the plan needs.
        """
        self.bind(slot)(stream)

    def _enqueue_on_tensors(self, steps: list[Step], stream: int) -> None:
        with self._arena.queue(stream):
            _enqueue(steps, stream)

    def _bind_launch(self, launch: Launch, slot: RunSlot, launcher: driver.Launcher, scratch: tuple[int, int]) -> Step:
        base = self._arena.pointer
        addresses = [base + offset for offset in slot.buffers]
        given, profile = (base + offset if offset >= 0 else 0 for offset in scratch)
        try:
            parameters = driver.LaunchParameters(pack(launch, addresses, (given, profile)))
        except driver.DriverError as error:
            raise CannotRun(f"the driver takes no tensor map of a descriptor of '{launch.function}': {error}") from None

        def enqueue(stream: int) -> None:
            launcher(stream, parameters.address)

        return enqueue

    def _bind_tensors(self, step: Fill | Copy, slot: RunSlot) -> Step:
        target = self._arena.view(step.target, slot.buffers[step.target.buffer])
        if isinstance(step, Fill):
            value = step.value

            def fill(_: int) -> None:
                target.fill_(value)

            return fill
        source = self._arena.view(step.source, slot.buffers[step.source.buffer])

        def copy(_: int) -> None:
            target.copy_(source)

        return copy


def pack(launch: Launch, addresses: Sequence[int], scratch: tuple[int, int]) -> list[int | bytes]:
    """Return the values of a kernel's parameters, in order: bits as numbers, whose low bits count, or tensor maps.

    Args:
        launch: Names the arguments.
        addresses: Address of each buffer of the plan.
        scratch: Addresses of the global and the profile scratch, zero for none; they follow the arguments.

    Raises:
        DriverError: If the driver refuses a descriptor.
    """
    packed: list[int | bytes] = []
    for argument in launch.arguments:
        if isinstance(argument, Number):
            packed.append(bits_of(argument))
        else:
            packed += _pack_memory(argument, addresses[argument.buffer])
    return [*packed, *scratch]


def _pack_memory(argument: Pointer | HostDescriptor, base: int) -> list[int | bytes]:
    address = base + argument.offset_bytes
    if isinstance(argument, Pointer):
        return [address]
    numbers = [bits_of(item) for item in argument.parameters() if isinstance(item, Number)]
    return [address if argument.map is None else driver.encode_tensor_map(address, argument), *numbers]


def bits_of(number: Number) -> int:
    """Return the bits of a scalar argument, as Triton's own launcher packs them."""
    match number.type:
        case "fp64":
            return _bits(bytes(ctypes.c_double(number.value)))
        case "fp32":
            return _bits(bytes(ctypes.c_float(number.value)))
        case "bf16":  # Triton cuts the lower half of a float32 off.
            return _bits(bytes(ctypes.c_float(number.value))[2:])
        case "fp16":
            value = float(number.value)
            return _bits(struct.pack("<e", copysign(inf, value) if abs(value) >= _HALF_OVERFLOW else value))
        case _:
            return int(number.value)


def _bits(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _enqueue(steps: list[Step], stream: int) -> None:
    for step in steps:
        step(stream)


def _check_aligned(step: Fill | Copy) -> None:
    views = (step.target,) if isinstance(step, Fill) else (step.source, step.target)
    for view in views:
        if view.offset_bytes % DTYPE_BYTES[view.dtype]:
            raise CannotRun(f"a {step.op} begins at byte {view.offset_bytes}, where no {view.dtype} can")


def _too_much_shared(launch: Launch, needed: int, card: driver.DriverCard) -> str:
    return f"'{launch.function}' uses {needed} bytes of shared memory; {card.name} has {card.sheet.shared_block_bytes}"
