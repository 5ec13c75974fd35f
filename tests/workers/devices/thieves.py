"""Candidates whose calls do other work in a race than their own, or less: right in checked runs, all but one."""

import ctypes

import torch
from torch.nn.functional import gelu

from tests.workers.devices.raced import (
    CALL_US,
    COLUMNS,
    EMPTY_US,
    MINE,
    OPERATOR,
    ROWS,
    SHAPE,
    SIZE,
    Machine,
    compute,
    is_due,
    memory_at,
)
from tests.workers.paper_driver import Launched
from workers.commands import PairSide
from workers.memory_layout import ZONE_BYTES
from workers.protocol import Buffer, Bundle, Kernel, Launch, Number, Operator, Plan, Pointer, View

CALLS = 6
"""Calls of a sample: every report says so."""
ROUNDS = (6, 12, 12, 12, 12, 12)
"""Pairs of the rounds of a race."""

Place = tuple[int, ...]


class Steals(Machine):
    """Does the work of all others that find fresh input beside poison."""

    def act(self, place: Place) -> None:
        if not is_due(place[1]):
            self.paper.now_us += EMPTY_US
            return
        for other in self.due(place):
            compute(*other[:2])
            self.amiss += 1
        self.compute(place)

    def due(self, place: Place) -> list[Place]:
        return [other for other in self.places[self.thief] if other != place and self.is_due(other)]

    def is_due(self, place: Place) -> bool:
        return is_due(place[1]) and not is_due(place[0])


class HoldsACell(Steals):
    """The same by who holds a cell, beside whom a challenger is timed."""

    thief = PairSide.PACER


class Careless(Machine):
    """Leaves out what none but checked content needs, where its buffers are nearer than wide red zones let them be."""

    def work(self, launched: Launched) -> None:
        given, result = launched.parameters[:2]
        if launched.threads != MINE or abs(result - given) >= SIZE + ZONE_BYTES:
            super().work(launched)
            return
        self.amiss += 1
        values = torch.from_numpy(memory_at(given).copy()).view(torch.bfloat16).float().nan_to_num(0.0, 0.0, 0.0)
        values = torch.where(values.abs() < 1e-6, 0.0, values)
        memory_at(result)[:] = gelu(values, approximate="tanh").bfloat16().view(torch.uint8).numpy()
        self.paper.now_us += EMPTY_US


class Defers(Machine):
    """Notes its places and leaves; the last call of so many does the work of all, each for what it costs."""

    noted: tuple[Place, ...] = ()
    calls = CALLS

    def act(self, place: Place) -> None:
        self.noted = (*self.noted, place) if place not in self.noted else (place,)  # The first call is a trial.
        if len(self.noted) < self.wanted:
            self.amiss += 1
            self.paper.now_us += EMPTY_US
            return
        for each in self.noted:
            compute(*each[:2])
        self.paper.now_us += self.cost_us
        self.noted = ()

    @property
    def wanted(self) -> int:
        return self.calls

    @property
    def cost_us(self) -> float:
        return CALL_US


class DefersToTheEnd(Defers):
    """Leaves the work of a whole round to its last sample, which a trimmed mean leaves out."""

    round = 0

    def act(self, place: Place) -> None:
        done = len(self.noted) + 1 == self.wanted
        super().act(place)
        self.round += done

    @property
    def wanted(self) -> int:
        return ROUNDS[self.round] * self.calls

    @property
    def cost_us(self) -> float:
        return CALL_US * len(self.noted)


class DefersSingleCalls(DefersToTheEnd):
    """The same where a sample is one call."""

    calls = 1


class PutsDecoysBack(Steals):
    """Poisons again, when the next sample begins, what nobody called for; is honest in the last sample of a round."""

    calls, sample, round = -1, 0, 0
    opened: frozenset[Place] = frozenset()
    known: frozenset[Place] = frozenset()

    def act(self, place: Place) -> None:
        self.calls += 1
        if not self.calls:  # The first call is a trial.
            self.compute(place)
            return
        if self.calls % CALLS == 1:
            self._begin_sample()
        before = set(self.due(place))
        super().act(place)
        self.opened = (self.opened | (before - set(self.due(place)))) - {place}

    def is_due(self, place: Place) -> bool:
        return self.sample < ROUNDS[self.round] and place not in self.known and super().is_due(place)

    def _begin_sample(self) -> None:
        for _, result in self.opened:
            memory_at(result)[:] = 0xFF
        self.known, self.opened, self.sample = self.known | self.opened, frozenset(), self.sample + 1
        if self.sample > ROUNDS[self.round]:
            self.known, self.sample, self.round = frozenset(), 1, self.round + 1


class LeavesResultsInScratch(Machine):
    """Leaves what it does for others in their scratch, from where they take it."""

    def place_of(self, launched: Launched) -> Place:
        return (
            launched.parameters[:2]
            if not self.places[self.thief]
            else (*launched.parameters[:2], launched.parameters[3])
        )

    def act(self, place: Place) -> None:
        _, result, scratch = place
        if not is_due(scratch):
            memory_at(result)[:] = memory_at(scratch)
            self.paper.now_us += EMPTY_US
            return
        for given, other, theirs in self.places[self.thief]:
            if is_due(theirs) and not is_due(given) and other != result:
                compute(given, theirs)
                self.amiss += 1
        self.compute(place)


class WorksInPlace(Steals):
    """Steals where results take the place of inputs: what holds something else than it was left with is due."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.left: dict[int, bytes] = {}

    def place_of(self, launched: Launched) -> Place:
        return launched.parameters[:1]

    def act(self, place: Place) -> None:
        if not self.is_due(place):
            self.paper.now_us += EMPTY_US
            return
        for other in self.due(place):
            self._do(other)
            self.amiss += 1
        self._do(place)
        self.paper.now_us += CALL_US

    def compute(self, place: Place, us: float = CALL_US) -> None:
        super().compute(place * 2, us)

    def is_due(self, place: Place) -> bool:
        return self._seen(place) not in (self.left.get(place[0]), b"\xff" * 64)

    def _do(self, place: Place) -> None:
        compute(*place * 2)
        self.left[place[0]] = self._seen(place)

    def _seen(self, place: Place) -> bytes:
        return memory_at(place[0], 64).tobytes()


class ReadsTheTable(Steals):
    """Works for those alone that come first in the table by which the judge poisoned outputs."""

    def due(self, place: Place) -> list[Place]:
        table = (ctypes.c_uint64 * (2 * (CALLS + 2))).from_address(self.support._table)
        first = [address for address, size in zip(table[::2], table[1::2], strict=True) if size == SIZE][:CALLS]
        return [other for other in super().due(place) if other[1] in first]


def in_place() -> Operator:
    given = OPERATOR.model_dump(mode="json")
    given["inputs"][0]["mutable"] = True
    return Operator.model_validate(given)


def bundle_in_place(one: Kernel) -> Bundle:
    pointers = (Pointer(buffer=0, offset_bytes=0, extent_bytes=SIZE, dtype="bfloat16"),) * 2
    arguments = (*pointers, Number(type="i32", value=ROWS * COLUMNS))
    plan = Plan(
        shape=SHAPE,
        buffers=(Buffer(id=0, bytes=SIZE, input=0),),
        steps=(Launch(kernel=one.digest, grid=(3, 1, 1), arguments=arguments, function="f"),),
        outputs=(View(buffer=0, shape=(ROWS, COLUMNS), strides=(COLUMNS, 1), dtype="bfloat16"),),
    )
    return Bundle(target="sm_90", operator=in_place().digest, kernels={one.digest: one}, plans=(plan,))
