"""Calls that do what is not theirs, or less than they ought, in a race as it is: all but driver and kernels is ours."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import gelu

from tests.workers.checker.paper import PaperCard, pattern_of
from tests.workers.checks import cases
from tests.workers.devices.desk import MIX, Desk
from tests.workers.paper_driver import Launched, Paper, code
from tests.workers.runner.plans import arena, kernel, rows, supported
from workers import driver
from workers.assembler import MachineCode
from workers.checker.examiner import Examiner
from workers.checker.memory import Memory
from workers.devices.race import Pace, Race, Track
from workers.devices.trial import Trial
from workers.orders import Side
from workers.placement import ZONE_BYTES
from workers.protocol import Allocate, Buffer, Bundle, Kernel, Launch, Number, Plan, Pointer, Shape, View
from workers.runner.session import Opening
from workers.support import stream_seed

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


@dataclass
class Machine:
    """What the kernels do; `places` are all that the candidate has in the race, whatever they are for."""

    paper: Paper
    steals: bool = False
    places: list[tuple[int, int]] = field(default_factory=list)
    stolen: int = 0

    def work(self, launched: Launched) -> None:
        given, result = launched.parameters[:2]
        if launched.threads == MINE and self.steals and self.places:
            if not is_due(result):
                self.paper.now_us += EMPTY_US
                return
            for other in self.places:
                if is_due(other[1]) and not is_due(other[0]) and other[1] != result:
                    compute(*other)
                    self.stolen += 1
        compute(given, result)
        self.paper.now_us += CALL_US

    def fill(self, launched: Launched) -> None:
        for address, seed in rows(launched, 2):
            memory_at(address)[:] = content(seed).view(torch.uint8).flatten().numpy()

    def fill_zones(self, launched: Launched) -> None:
        for address, offset, size in rows(launched, 3):
            memory_at(address, size)[:] = pattern_of(offset, size, launched.parameters[1]).numpy()


@dataclass
class Careless(Machine):
    """Leaves out what none but checked content needs, where its buffers are nearer than wide red zones let them be."""

    shortcuts: int = 0

    def work(self, launched: Launched) -> None:
        given, result = launched.parameters[:2]
        if launched.threads != MINE or abs(result - given) >= SIZE + ZONE_BYTES:
            super().work(launched)
            return
        self.shortcuts += 1
        values = torch.from_numpy(memory_at(given).copy()).view(torch.bfloat16).float().nan_to_num(0.0, 0.0, 0.0)
        values = torch.where(values.abs() < 1e-6, 0.0, values)
        memory_at(result)[:] = gelu(values, approximate="tanh").bfloat16().view(torch.uint8).numpy()
        self.paper.now_us += EMPTY_US


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


@contextmanager
def raced(*, steals: bool = False, make: type[Machine] = Machine) -> Iterator[tuple[Trial, Machine]]:
    """A candidate that was right where it was checked, and its pacer, before their race.

    Raises:
        Ended: If it was not right there.
    """
    bundles = {Side.CANDIDATE: bundle_of(kernel(num_warps=MINE // 32)), Side.PACER: bundle_of(kernel())}
    digests = [digest for bundle in bundles.values() for digest in bundle.kernels]
    codes = {digest: MachineCode(code(5, "work", us=0.0), (), 8, 0, 0, MIX) for digest in digests}
    with supported() as (paper, support):
        memory = arena(2**24)
        card, machine = Card(), make(paper, steals)
        card.arena = memory.tensor(0, memory.bytes)
        paper.deeds |= {"fill_bfloat16": machine.fill, "work": machine.work, "fill_zones": machine.fill_zones}
        session = Opening(driver.open_card(0), support, lambda _: memory).claim(memory.bytes)
        crew = Desk(session, Examiner(card, Memory(2**28)), card.arena)
        trial = Trial(crew, OPERATOR, (cases.graph_of(OPERATOR, SHAPE),), bundles, codes, fresh=True)
        trial.check()
        placed = trial.slots

        def slots(side, *given, **options):
            places = placed(side, *given, **options)
            mine = places if side is Side.CANDIDATE else ()
            machine.places += [tuple(memory.pointer + offset for offset in slot.buffers) for slot in mine]
            return places

        trial.slots = slots
        yield trial, machine


def race_of(trial: Trial) -> Race:
    return Track(trial, dict.fromkeys(Side, 0), Pace(QUICK_US)).race(16)
