"""A stage: plays the runner for tests of the checker. Kernels are functions in torch that get their inputs in place."""

import ctypes
from collections.abc import Callable, Sequence
from math import inf, prod
from random import Random
from typing import Protocol

import torch

from tests.workers.checks.cases import SIZES, graph_of
from tests.workers.oracle.paper import ARENA_BYTES, PaperCard
from workers.commands import (
    TIMED,
    AttachArena,
    ExaminedRuns,
    ExamineMore,
    ExamineRound,
    ExamineRuns,
    InputContent,
    Order,
    PairSide,
    Reply,
    RunCase,
    RunSlot,
    SetOperator,
    TimedSample,
    TimingRound,
)
from workers.device_kernels import checksum_key
from workers.memory_layout import SMALL_ZONE_BYTES, place, written
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.base import OracleCard, PlanRun
from workers.oracle.examiner import Examiner
from workers.oracle.views import inputs_after, inputs_before, outputs
from workers.protocol import DTYPE_BYTES, Allocate, Buffer, Bundle, Operator, Plan, Shape, View

SEED = "5eed" * 8
Kernel = Callable[..., torch.Tensor | None]


class Playable(OracleCard, Protocol):
    """A card that runs can be played on."""

    arena: torch.Tensor

    def prepare(self, run: PlanRun) -> None:
        """Write the pattern around a run's buffers, and poison them."""


def result_shape(operator: Operator, dims: dict[str, int]) -> tuple[int, ...]:
    """Shape of the output of one of the operators in `tests.workers.checks.cases`."""
    named = {"cross_entropy": (), "argmax": ("M",), "matmul": ("M", "N")}.get(operator.name)
    if named is None:
        return operator.input_shape(operator.inputs[0], dims)
    return tuple(dims[name] for name in named)


def contiguous(buffer: int, shape: Sequence[int], dtype: str) -> View:
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return View(buffer=buffer, shape=tuple(shape), strides=strides, dtype=dtype)


class Stage:
    """An operator, a plan without launches at one shape, and a checker that looks into the arena it is played in.

    Unless told otherwise the arena is on the CPU, and the checker an examiner in this process.
    """

    def __init__(
        self,
        operator: Operator,
        card: Playable | None = None,
        ask: Callable[[Order], Reply] | None = None,
        memory_bytes: int = 2**24,
        **dims: int,
    ) -> None:
        self.operator = operator
        self.shape = Shape(dims={name: SIZES[name] for name in operator.dimensions} | dims)
        self.graph = graph_of(operator, self.shape)
        self.plan = self._plan()
        self.random = Random(1)
        self.card = card or PaperCard()
        if ask is None:
            self.examiner = Examiner(self.card, AnswerCache(memory_bytes), look_s=inf)
            self.examiner.answer(AttachArena(handle="ab", arena_bytes=ARENA_BYTES))
        self._ask = ask or self.examiner.answer
        self.adopt()

    def ask(self, order: Order) -> Reply:
        """The answer to an order, after as many looks as it takes, with the doubts of all."""
        reply = self._ask(order)
        while isinstance(reply, ExaminedRuns) and reply.next is not None and not reply.pacer:
            later = self._ask(ExamineMore(start=reply.next))
            reply = later.model_copy(update={"doubts": (*reply.doubts, *later.doubts)})
        return reply

    def adopt(self) -> Reply:
        return self.ask(SetOperator(operator=self.operator, graphs=(self.graph,)))

    def examine(self, kernel: Kernel, content: InputContent) -> Reply:
        """Play one run and have it examined; doubts are decided."""
        (slot,) = self.slots(1)
        self.play(kernel, slot, content)
        return self.decided(kernel, self.ask(self.order(content, slot)))

    def decided(self, kernel: Kernel, seen: Reply) -> Reply:
        """Play fresh runs until every doubt of an answer is decided, as the executor does."""
        for doubt in seen.doubts:
            for number in range(doubt.draws):
                (slot,) = self.slots(1)
                content = InputContent(draw=doubt.draw, seed=f"{number:032x}")
                self.play(kernel, slot, content)
                order = self.order(content, slot).model_copy(update={"decides": doubt.check})
                seen = self.ask(order)
        return seen

    def order(self, content: InputContent, *slots: RunSlot, compared: bool = False) -> ExamineRuns:
        """To look at runs on one content; `compared` says that the first two must be equal."""
        cases = tuple(RunCase(plan=0, slot=slot, content=content) for slot in slots)
        repeats = ((0, 1),) if compared else ()
        return ExamineRuns(plans={0: self.plan}, cases=cases, zones=content.seed, repeats=repeats)

    def examine_round(self, kernel: Kernel, pacer: Kernel) -> Reply:
        """Play a round and have it examined."""
        return self.decided(kernel, self.ask(self.round(kernel, pacer)))

    def slots(self, count: int, start: int = 0) -> tuple[RunSlot, ...]:
        """Places for runs."""
        bundle = Bundle(target="sm_90", operator=self.operator.digest, kernels={}, plans=(self.plan,))
        options = {"start": start, "limit": self.card.arena.numel(), "zone_bytes": SMALL_ZONE_BYTES}
        return place(bundle, self.plan, count, self.random, **options)

    def play(self, kernel: Kernel, slot: RunSlot, content: InputContent) -> PlanRun:
        """Run a kernel as the runner does: pattern, poison, inputs, then the kernel, whose result is copied out."""
        run = PlanRun(self.plan, slot, content)
        self.card.prepare(run)
        given = inputs_before(self.card, self.operator, run)
        places = inputs_after(self.card, self.operator, run)
        for where, value in zip(places, given, strict=True):
            where.copy_(value)
        with self.card.device:
            result = kernel(*places)
        if result is not None:
            outputs(self.card, [run])[0][0].copy_(result)
        return run

    def round(
        self, candidate: Kernel, pacer: Kernel, calls: int = 2, pairs: int = 2, contents: int = 4
    ) -> ExamineRound:
        """A round as the bench asks for it, every sample of which was played."""
        mine = self.slots(calls * pairs)
        slots = {PairSide.CANDIDATE: mine, PairSide.PACER: self.slots(calls * pairs, mine[-1].end)}
        samples, checksums = [], []
        for pair in range(pairs):
            for side, kernel in ((PairSide.CANDIDATE, candidate), (PairSide.PACER, pacer)):
                places = tuple(range(pair * calls, (pair + 1) * calls))
                streams = tuple(self.random.sample(range(contents), calls))
                samples.append(TimedSample(side=side, slots=places, streams=streams))
                for place_, stream in zip(places, streams, strict=True):
                    content = InputContent(draw=TIMED, seed=SEED, stream=stream)
                    self.play(kernel, slots[side][place_], content)
                checksums.append(
                    self.checksum([slots[side][index] for index in places]) if side is PairSide.CANDIDATE else 0
                )
        timed = TimingRound(plans=dict.fromkeys(PairSide, 0), slots=slots, samples=tuple(samples), seed=SEED)
        return ExamineRound(plans=dict.fromkeys(PairSide, self.plan), round=timed, checksums=tuple(checksums))

    def checksum(self, slots: Sequence[RunSlot]) -> int:
        """What runs in slots may have written adds up to, as the runner says it."""
        total = 0
        for start, end in (stretch for slot in slots for stretch in written(self.operator, slot)):
            total += int(self.card.sums([[self.card.address(start, end - start)]], [end - start], checksum_key(SEED)))
        return ctypes.c_int64(total).value

    def _plan(self) -> Plan:
        (output,) = self.operator.outputs
        inputs = [(item, self.operator.input_shape(item, self.shape.dims)) for item in self.operator.inputs]
        result = result_shape(self.operator, self.shape.dims)
        sizes = [prod(shape) * DTYPE_BYTES[item.dtype] for item, shape in (*inputs, (output, result))]
        buffers = [
            Buffer(id=index, bytes=size, input=index if index < len(inputs) else None)
            for index, size in enumerate(sizes)
        ]
        return Plan(
            shape=self.shape,
            buffers=tuple(buffers),
            steps=(Allocate(buffer=len(inputs)),),
            outputs=(contiguous(len(inputs), result, output.dtype),),
        )
