"""Replay: a bundle's kernels on the card, and a plan's steps on a slot. Host code of ours only.

kernels = Kernels(bundle, machine_code)
plan = LoadedPlan(kernels, bundle.plans[0], arena)
plan.call(slot, stream)
"""

from collections.abc import Callable, Mapping
from functools import partial

from workers import driver
from workers.assembler.machine import ENTRY
from workers.commands import RunSlot
from workers.protocol import DTYPE_BYTES, Bundle, Copy, Fill, Kernel, Launch, Plan
from workers.runner.arena import PlanMemory
from workers.runner.errors import CannotRun
from workers.runner.packing import pack
from workers.runner.slots import SlotLayout

WARP = 32
"""Threads a warp on every NVIDIA card."""
CLUSTERS_FROM = (9, 0)
"""Compute capability from which there are clusters."""

Step = Callable[[int], None]
"""Enqueues something on a stream."""


class LoadedKernels:
    """A bundle's kernels, each loaded when it is first asked for.

    Attributes:
        bundle: The bundle.
    """

    def __init__(self, bundle: Bundle, machine_code: Mapping[str, bytes]) -> None:
        """Take machine code by kernel digest; the card is the one that is open in this thread."""
        self.bundle = bundle
        self._machine_code = machine_code
        self._card = driver.current_card()
        self._functions: dict[str, driver.DriverFunction] = {}

    def launcher(self, launch: Launch) -> driver.Launcher:
        """A launch, ready to be enqueued.

        Raises:
            CannotRun: If the card cannot start it.
            DriverError: If the machine code is not for this card.
        """
        kernel = self.bundle.kernels[launch.kernel]
        self._check_card(launch, kernel)
        function = self._function(launch.kernel, kernel)
        threads, shared = kernel.num_warps * WARP, kernel.shared_bytes
        if threads > function.threads:
            raise CannotRun(f"'{launch.function}' starts {threads} threads of the {function.threads} that it can have")
        if shared + function.shared_bytes > self._card.shared_block_bytes:
            raise CannotRun(_too_much_shared(launch, shared + function.shared_bytes, self._card))
        if kernel.num_ctas == 1:
            return driver.make_launcher(function, launch.grid, threads, shared)
        clusters = driver.make_cluster_launcher(function, launch.grid, threads, shared, kernel.num_ctas)
        if clusters is None:
            raise CannotRun(f"'{launch.function}' takes clusters of {kernel.num_ctas}: too many for this card")
        return clusters

    def local_bytes(self, launch: Launch) -> int:
        """Local memory that a thread of a launch takes.

        Raises:
            DriverError: If the machine code is not for this card.
        """
        return self._function(launch.kernel, self.bundle.kernels[launch.kernel]).local_bytes

    def close(self) -> None:
        """Take them off the card. No launch of theirs may be under way. Idempotent."""
        while self._functions:
            driver.unload(self._functions.popitem()[1])

    def _check_card(self, launch: Launch, kernel: Kernel) -> None:
        card = self._card
        if kernel.shared_bytes > card.shared_block_bytes:
            raise CannotRun(_too_much_shared(launch, kernel.shared_bytes, card))
        if kernel.num_ctas > 1 and card.capability < CLUSTERS_FROM:
            raise CannotRun(f"'{launch.function}' takes clusters, which {card.name} does not have")
        blocks = (launch.grid[0] * kernel.num_ctas, *launch.grid[1:])
        if any(size > limit for size, limit in zip(blocks, card.grid, strict=True)):
            raise CannotRun(f"'{launch.function}' starts {blocks} blocks; {card.name} takes {card.grid} at most")

    def _function(self, digest: str, kernel: Kernel) -> driver.DriverFunction:
        if digest not in self._functions:
            code = self._machine_code[digest]
            self._functions[digest] = driver.load_function(code, ENTRY, kernel.shared_bytes)
        return self._functions[digest]


class ReplayedPlan:
    """A plan whose kernels are on the card.

    Attributes:
        plan: The plan.
        layout: What its slots hold.
        local_bytes: Most local memory that a thread of any of its launches takes.
    """

    def __init__(self, kernels: LoadedKernels, plan: Plan, arena: PlanMemory) -> None:
        """Load what the plan launches.

        Args:
            kernels: Of the plan's bundle.
            plan: The plan.
            arena: Where its slots lie, such as an `Arena`.

        Raises:
            CannotRun: If the card cannot run it.
            DriverError: If machine code is not for this card.
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
        """All steps of the plan on a slot, checked and ready to be enqueued many times.

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
        parameters = driver.LaunchParameters(pack(launch, addresses, (given, profile)))

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


def _enqueue(steps: list[Step], stream: int) -> None:
    for step in steps:
        step(stream)


def _check_aligned(step: Fill | Copy) -> None:
    views = (step.target,) if isinstance(step, Fill) else (step.source, step.target)
    for view in views:
        if view.offset_bytes % DTYPE_BYTES[view.dtype]:
            raise CannotRun(f"a {step.op} begins at byte {view.offset_bytes}, where no {view.dtype} can")


def _too_much_shared(launch: Launch, needed: int, card: driver.DriverCard) -> str:
    return f"'{launch.function}' takes {needed} bytes of shared memory; {card.name} has {card.shared_block_bytes}"
