"""A race as it is, in which all but the driver and what kernels do is ours: for calls that do what they should not."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import numpy as np
import torch
from torch.nn.functional import gelu

from tests.workers.checks import cases
from tests.workers.devices.desk import MIX, Desk
from tests.workers.oracle.paper import PaperCard, pattern_of
from tests.workers.paper_driver import Launched, Paper, code
from tests.workers.runner.plans import arena, kernel, rows, supported
from workers import driver
from workers.assembler import MachineCode
from workers.commands import PairSide
from workers.device_kernels import DeviceKernels, stream_seed
from workers.devices.paired_timing import CallTime, PairedTimer, PairedTimes
from workers.devices.trial import VariantTrial
from workers.oracle.answer_cache import AnswerCache
from workers.oracle.examiner import Examiner
from workers.protocol import Allocate, Buffer, Bundle, Kernel, Launch, Number, Operator, Plan, Pointer, Shape, View
from workers.runner.session import OpenedCard

OPERATOR = cases.operator("gelu")
ROWS, COLUMNS = 48, 96
SHAPE = Shape(dims={"M": ROWS, "N": COLUMNS})
SIZE = 2 * ROWS * COLUMNS
"""Bytes of an input, and of an output."""
QUICK_US = 17.0
"""A kernel that is called six times a sample."""
CALL_US, EMPTY_US = 4.0, 1.0
MINE = 256
"""Threads of the candidate's programs; the pacer's have half as many."""


def memory_at(address: int, size: int = SIZE) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def content(seed: int) -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(seed >> 1)).bfloat16()


def compute(given: int, result: int) -> None:
    values = torch.from_numpy(memory_at(given).copy()).view(torch.bfloat16)
    memory_at(result)[:] = gelu(values.float(), approximate="tanh").bfloat16().view(torch.uint8).numpy()


def is_due(result: int) -> bool:
    return bool((memory_at(result, 64) == 0xFF).all())


class Card(PaperCard):
    """Makes contents as the kernels on paper do."""

    def fill(self, operator, shape, seed, contents) -> None:
        for stream, tensors in contents.items():
            for number, tensor in enumerate(tensors):
                tensor.copy_(content(stream_seed(seed, number, stream)))


class Machine:
    """What the kernels do. All are honest here; heirs say what the candidate's do.

    Attributes:
        places: The addresses that a side's runs have in the race, whatever they are for: input, output, scratch.
        amiss: What the candidate's calls did that they should not have done, or left undone.
    """

    thief = PairSide.CANDIDATE

    def __init__(self, paper: Paper, support: DeviceKernels) -> None:
        self.paper, self.support = paper, support
        self.places: dict[PairSide, list[tuple[int, ...]]] = {side: [] for side in PairSide}
        self.amiss = 0

    def work(self, launched: Launched) -> None:
        place = self.place_of(launched)
        is_thief = (launched.threads == MINE) == (self.thief is PairSide.CANDIDATE)
        if not is_thief or place not in self.places[self.thief]:
            self.compute(place)
        else:
            self.act(place)

    def place_of(self, launched: Launched) -> tuple[int, ...]:
        return launched.parameters[:2]

    def act(self, place: tuple[int, ...]) -> None:
        """One of the thief's calls in a race."""
        self.compute(place)

    def compute(self, place: tuple[int, ...], us: float = CALL_US) -> None:
        compute(*place[:2])
        self.paper.now_us += us

    def fill(self, launched: Launched) -> None:
        for address, seed in rows(launched, 2):
            memory_at(address)[:] = content(seed).view(torch.uint8).flatten().numpy()

    def fill_zones(self, launched: Launched) -> None:
        for address, offset, size in rows(launched, 3):
            memory_at(address, size)[:] = pattern_of(offset, size, launched.parameters[1]).numpy()


def bundle_of(one: Kernel) -> Bundle:
    pointers = (Pointer(buffer=buffer, offset_bytes=0, extent_bytes=SIZE, dtype="bfloat16") for buffer in (0, 1))
    arguments = (*pointers, Number(type="i32", value=ROWS * COLUMNS))
    plan = Plan(
        shape=SHAPE,
        buffers=(Buffer(id=0, bytes=SIZE, input=0), Buffer(id=1, bytes=SIZE)),
        steps=(Allocate(buffer=1), Launch(kernel=one.digest, grid=(3, 1, 1), arguments=arguments, function="f")),
        outputs=(View(buffer=1, shape=(ROWS, COLUMNS), strides=(COLUMNS, 1), dtype="bfloat16"),),
    )
    return Bundle(target="sm_90", operator=OPERATOR.digest, kernels={one.digest: one}, plans=(plan,))


def codes_of(*bundles: Bundle) -> dict[str, MachineCode]:
    """Machine code of kernels that do the machine's work."""
    digests = (digest for bundle in bundles for digest in bundle.kernels)
    return {digest: MachineCode(code(5, "work", us=0.0), (), 8, 0, 0, MIX) for digest in digests}


@contextmanager
def raced(
    make: Callable[[Paper, DeviceKernels], Machine] = Machine,
    operator: Operator = OPERATOR,
    bundle: Callable[[Kernel], Bundle] = bundle_of,
    seed: int = 0,
) -> Iterator[tuple[VariantTrial, Machine]]:
    """A candidate that is right, and its pacer, before their race; equal seeds draw the same order of samples."""
    bundles = {PairSide.CANDIDATE: bundle(kernel(num_warps=MINE // 32)), PairSide.PACER: bundle(kernel())}
    codes = codes_of(*bundles.values())
    with supported() as (paper, support):
        memory = arena(2**24)
        card, machine = Card(), make(paper, support)
        card.arena = memory.tensor(0, memory.bytes)
        paper.deeds |= {"fill_bfloat16": machine.fill, "work": machine.work, "fill_zones": machine.fill_zones}
        session = OpenedCard(driver.open_card(0), support, lambda _: memory).claim(memory.bytes)
        processes = Desk(session, Examiner(card, AnswerCache(2**28)), card.arena)
        trial = VariantTrial(processes, operator, (cases.graph_of(operator, SHAPE),), bundles, codes, fresh=True)
        trial.random = Random(seed)
        trial.check()
        placed = trial.slots

        def slots(side, *given, **options):
            places = placed(side, *given, **options)
            offsets = ((*slot.buffers, *(at for pair in slot.scratch for at in pair if at >= 0)) for slot in places)
            machine.places[side] += [tuple(memory.pointer + offset for offset in each) for each in offsets]
            return places

        trial.slots = slots
        yield trial, machine


def timing_of(trial: VariantTrial, single_us: float = QUICK_US, *, untrusted: bool = False) -> PairedTimes:
    """Sixteen pairs, all places looked at when they are over."""
    track = PairedTimer(trial, dict.fromkeys(PairSide, 0), CallTime(single_us), untrusted=untrusted)
    timing = track.time(16)
    trial.check_idle()
    return timing
