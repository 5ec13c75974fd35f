"""The work of the process: from a request to figures. It holds a CUDA context, and no candidate's code."""

import gc
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, TypeVar

import torch

from workers import driver
from workers.baselines.client import library_versions
from workers.baselines.contenders import contenders_of
from workers.baselines.copies import CopyTimer
from workers.baselines.figures import are_tight, summarise
from workers.baselines.head_to_head import BRIEF_ROUNDS, ROUNDS, HeadToHead, Interlude
from workers.baselines.inductor import exclusive_tuning, prepare
from workers.baselines.input_sets import InputSet, count_sets, lay_out
from workers.baselines.messages import PACER, Baseline, BaselineReply, BaselineRequest, CopySize, CopyTime
from workers.baselines.module import Function
from workers.baselines.preparation import FAILURES, ContenderPreparation, why_left_out
from workers.device_kernels import DeviceKernels, SupportKernel, compile_copies, compile_support
from workers.errors import lacks_memory
from workers.gpu_lock import BASELINES, GpuLock, MemoryLock, SoleUse
from workers.memory_layout import SMALL_ZONE_BYTES, slot_bytes
from workers.protocol import Graph, Plan, Precision
from workers.runner.arena import Arena
from workers.runner.replay import LoadedKernels, ReplayedPlan

Result = TypeVar("Result")


def answer(request: BaselineRequest, card: int, turn: int = 0) -> BaselineReply:
    """Measure everything in a request on a card, when no other process with the same number of a turn does.

    Raises:
        Disagrees: If the pacer, although it was judged correct, does not compute the reference's result.
        RuntimeError: If the card or the reference fails.
        CannotRun: If the pacer is not for this card.
        ToolMissing: If this machine has no driver.
    """
    code = {digest: b64decode(text) for digest, text in request.machine_code.items()}
    baselines = []
    demand_precision(request.operator.precision)
    _compiled(request.pacer.target)  # Before the card is locked: compiling takes seconds on the host.
    if not request.eager_alone:
        prepare()
    address = driver.address_of(card)
    with (
        closing(SoleUse(address, f"{BASELINES}-{turn}" if turn else BASELINES)) as sole,
        closing(MemoryLock(address)) as memory,
        closing(GpuLock(address)) as gpu_lock,
        exclusive_tuning(gpu_lock),
    ):
        sole.take()
        with gpu_lock.shared():
            opened = driver.open_card(card)
            torch.cuda.set_device(card)
            support, kernels = _support(request.pacer.target), LoadedKernels(request.pacer, code)

        def compare(graph: Graph, plan: Plan) -> Baseline:
            try:
                with (
                    gpu_lock.shared(),
                    closing(_Comparison(request, graph, plan, kernels, support, gpu_lock)) as comparison,
                ):
                    return comparison.baseline(alone=memory.is_alone)
            finally:
                # The host alone is busy with this: for 2.4 s the first time, and then for 0.2 s.
                torch.compiler.reset()
                gc.collect()
                with gpu_lock.shared():
                    torch.cuda.empty_cache()

        for graph, plan in zip(request.graphs, request.pacer.plans, strict=bool(request.graphs)):
            baselines.append(with_memory(memory, partial(compare, graph, plan)))
        timer = CopyTimer(support, opened, gpu_lock)
        copies = with_memory(memory, partial(_copies, request.copies, timer))
    return BaselineReply(baselines=tuple(baselines), copies=copies, versions=_versions(opened))


def warm_up(target: str) -> None:
    """Import what torch.compile needs, and compile our own kernels: seconds of the host before the first request."""
    prepare()
    import_module("torch._inductor.compile_fx")
    _compiled(target)


def with_memory(memory: MemoryLock, work: Callable[[], Result]) -> Result:
    """Do work with memory of a card; if that is short beside other processes, do it again with the card alone."""
    for hold in (memory.share, memory.take):
        hold()
        try:
            return work()
        except RuntimeError as error:
            if memory.is_alone or not lacks_memory(str(error)):
                raise
        finally:
            memory.release()
    raise AssertionError("the second attempt returns or raises")


@cache
def _compiled(target: str) -> dict[str, SupportKernel]:
    return compile_support(target) | compile_copies(target)


@cache
def _support(target: str) -> DeviceKernels:
    """Return our kernels on the card; they stay loaded for later requests."""
    return DeviceKernels(_compiled(target))


def _copies(sizes: Sequence[CopySize], timer: CopyTimer) -> tuple[CopyTime, ...]:
    """Time copies. One that fails, as without memory for it, is left out: nothing is judged by it."""
    timed = []
    for size in sizes:
        with suppress(*FAILURES):
            timed.append(timer.time(size))
        torch.cuda.empty_cache()
    return tuple(timed)


def demand_precision(precision: Precision) -> None:
    """Set torch to the operator's precision: TF32 in float32 matrix products and convolutions only if allowed.

    PyTorch's default is float32 for the former and TF32 for the latter.
    """
    backends: Any = torch.backends
    torch.set_float32_matmul_precision("high" if precision.allow_tf32 is True else "highest")
    backends.cudnn.allow_tf32 = bool(precision.allow_tf32)


class _Comparison:
    """Comparison at one shape: sets of inputs, contenders, figures."""

    def __init__(
        self,
        request: BaselineRequest,
        graph: Graph,
        plan: Plan,
        kernels: LoadedKernels,
        support: DeviceKernels,
        gpu_lock: GpuLock,
    ) -> None:
        self._request = request
        self._graph = graph
        self._plan = plan
        self._gpu_lock = gpu_lock
        card = driver.current_card()
        self._device = torch.device("cuda", card.index)
        self._interlude = Interlude(support, card.l2_bytes, self._device)
        self._stream: torch.cuda.Stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        free_bytes, _ = torch.cuda.mem_get_info(self._device)
        count = count_sets(request.operator, request.pacer, plan, card.l2_bytes, free_bytes)
        if count < 1:
            raise RuntimeError(f"out of memory: {plan.shape.key} does not fit into {free_bytes} free bytes")
        self._arena = Arena.allocate(count * slot_bytes(request.pacer, plan, SMALL_ZONE_BYTES))
        with torch.cuda.stream(self._stream):
            self._sets = lay_out(request.operator, request.pacer, plan, count, self._arena.view)
        pacer = ReplayedPlan(kernels, plan, self._arena)
        self._replays = [pacer.bind(each.slot) for each in self._sets]

    def baseline(self, *, alone: bool) -> Baseline:
        """Check all contenders, then time them.

        Raises:
            RuntimeError: If the reference does not run, or a contender lacks memory and the card is not `alone`.
        """
        waited_s = self._gpu_lock.waited_s
        operator, is_brief = self._request.operator, self._request.eager_alone
        wanted = operator.model_copy(update={"baselines": ()}) if is_brief else operator
        makers, left_out = contenders_of(wanted, self._graph, self._device, self._gpu_lock)
        with torch.cuda.stream(self._stream):
            rehearsal = ContenderPreparation(operator, self._sets[0].inputs, self._gpu_lock, alone=alone)
            admitted, refused = rehearsal.admit(makers)
            rehearsal.compare(self._pacer_outputs)
        head_to_head = HeadToHead(self._interlude, self._stream, len(self._sets))
        torch.cuda.synchronize()
        with self._gpu_lock.exclusive():
            head_to_head.enter(PACER, self._replay)
            failed = self._enter(head_to_head, admitted, alone=alone)
            begun = time.perf_counter()
            rounds, half_width = BRIEF_ROUNDS if is_brief else ROUNDS, self._request.half_width
            is_enough = partial(are_tight, half_width=half_width) if half_width else None
            times = head_to_head.run(rounds, is_enough)
        spent = {"contest": time.perf_counter() - begun, "waited": self._gpu_lock.waited_s - waited_s}
        found = summarise(self._plan.shape.key, times, left_out | refused | failed)
        return found.model_copy(update={"spent_s": rehearsal.spent_s | spent})

    def close(self) -> None:
        """Release the memory of the sets."""
        self._arena.close()

    def _enter(self, head_to_head: HeadToHead, admitted: Mapping[str, Function], *, alone: bool) -> dict[str, str]:
        failed = {}
        for name, function in admitted.items():
            try:
                head_to_head.enter(name, partial(_call, function, self._sets))
            except FAILURES as error:
                failed[name] = why_left_out(error, alone=alone)
        return failed

    def _replay(self, number: int) -> None:
        self._replays[number](torch.cuda.current_stream().cuda_stream)

    def _pacer_outputs(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self._replay(0)
        slot = self._sets[0].slot
        return [self._arena.view(view, slot.buffers[view.buffer]) for view in self._plan.outputs]


def _call(function: Function, sets: Sequence[InputSet], number: int) -> tuple[torch.Tensor, ...]:
    return function(sets[number].inputs)


def _versions(card: driver.DriverCard) -> dict[str, str]:
    ours = {"torch": torch.__version__, "triton": version("triton"), "card": card.name}
    return {**ours, **library_versions(), **card.versions}
