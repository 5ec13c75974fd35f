"""Orders between the bench of a card and the two processes it employs: the runner, which replays, and the checker.

The bench decides everything that is random and everything that must be believed: where buffers lie, what they hold, in
which order sides are timed. The runner only replays and times; the checker only looks. Orders and answers are one JSON
object a line, over a pipe. Offsets and sizes are in bytes from the start of the runner's arena.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from workers.protocol import Bundle, CheckResult, Graph, Operator, Outcome, Plan
from workers.protocol.base import WireModel

TIMED = "timed"
"""The draw of timed content: counter-based, by fused kernels of ours. All other draws are those of `workers.inputs`."""

SECRET_BYTES = 16
"""Bytes of each secret that content and red zones are drawn from."""

ByteRange = tuple[int, int]
"""A stretch of the arena, (start, end)."""


POISON = 0xFF
"""Value of every byte of overwritten memory: NaN as a float, minus one as an integer."""


class PairSide(StrEnum):
    """The side whose plan is replayed: the candidate, or the pacer that it is paired with."""

    CANDIDATE = "candidate"
    PACER = "pacer"


class RunSlot(WireModel):
    """The memory of one run of a plan: a set of buffers that no other run uses meanwhile."""

    start: int
    end: int
    buffers: tuple[int, ...]
    """Offset of each buffer of the plan, by buffer id; multiples of `placement.ALIGNMENT`."""
    scratch: tuple[tuple[int, int], ...]
    """By launch of the plan, in order: offsets of its global and its profile scratch; -1 where it takes none."""
    zones: tuple[tuple[int, int], ...]
    """Red zones, (offset, bytes): everything between `start` and `end` that no buffer and no scratch covers."""


class InputContent(WireModel):
    """Which values a run is given. Equal contents give equal values in every process."""

    draw: str
    """`timed`, or a name in `workers.inputs.DRAWS`."""
    seed: str
    """The secret, hexadecimal."""
    stream: int = 0
    """Which of many independent contents under one seed; timed content only."""


class RunCase(WireModel):
    """One run of a side's plan: which, where, on which values."""

    plan: int
    """Position of the plan in its side's bundle."""
    slot: RunSlot
    content: InputContent
    poison: int = POISON
    """Value of every byte outside the run's inputs."""
    concurrent_load: bool = False
    """True if kernels of ours run beside it, so that its programs are scheduled in another order."""


class TimedSample(WireModel):
    """One timed stretch: `slots` are run one after the other, each on a stream of timed content of its own.

    Decoys are filled as slots are, and nothing is run on them before the round is over: what a call does for others
    than itself it does for them, too.
    """

    side: PairSide
    slots: tuple[int, ...]
    streams: tuple[int, ...]
    """Streams of the slots, then of the decoys."""
    decoys: tuple[int, ...] = ()

    @property
    def filled(self) -> tuple[int, ...]:
        """The slots, then the decoys."""
        return self.slots + self.decoys

    @property
    def called(self) -> list[tuple[int, int]]:
        """Slots with the streams that they get."""
        return list(zip(self.filled, self.streams, strict=True))[: len(self.slots)]

    @property
    def uncalled(self) -> list[tuple[int, int]]:
        """Decoys with theirs."""
        return list(zip(self.filled, self.streams, strict=True))[len(self.slots) :]


class TimingRound(WireModel):
    """Samples timed without a pause, in this order. No slot is used twice in a round."""

    plans: dict[PairSide, int]
    """Position of the plan in its side's bundle."""
    slots: dict[PairSide, tuple[RunSlot, ...]]
    samples: tuple[TimedSample, ...]
    seed: str
    """The secret of the timed content, hexadecimal."""
    untrusted_sides: tuple[PairSide, ...] = (PairSide.CANDIDATE,)
    """Sides whose plans are not ours: what their samples write is sealed as soon as they are over."""

    def cases(self, side: PairSide) -> tuple[RunCase, ...]:
        """A side's runs, in the order in which they are timed."""
        return self._cases(side, (pair for sample in self._of(side) for pair in sample.called))

    def decoys(self, side: PairSide) -> tuple[RunCase, ...]:
        """Runs that a side's calls find everything there for, and that never are."""
        return self._cases(side, (pair for sample in self._of(side) for pair in sample.uncalled))

    def _of(self, side: PairSide) -> list[TimedSample]:
        return [sample for sample in self.samples if sample.side is side]

    def _cases(self, side: PairSide, pairs: Iterable[tuple[int, int]]) -> tuple[RunCase, ...]:
        return tuple(
            RunCase(
                plan=self.plans[side],
                slot=self.slots[side][slot],
                content=InputContent(draw=TIMED, seed=self.seed, stream=stream),
            )
            for slot, stream in pairs
        )


class ClaimArena(WireModel):
    """To the runner, before anything else and once: take the memory of the arena, and overwrite it."""

    order: Literal["claim"] = "claim"
    arena_bytes: int


class LoadBundle(WireModel):
    """To the runner: take a side's bundle, in place of what it held for that side."""

    order: Literal["load"] = "load"
    side: PairSide
    operator: Operator
    bundle: Bundle
    machine_code: dict[str, str]
    """Machine code of every kernel by its digest, base64; assembled by the bench, never taken from a trace worker."""


class ExecuteRuns(WireModel):
    """To the runner: fill the inputs of all cases, poison everything else, run one after the other, await the last."""

    order: Literal["execute"] = "execute"
    side: PairSide
    cases: tuple[RunCase, ...]
    zones: str
    """The secret that the pattern of red zones follows from, hexadecimal."""


class PrepareRound(WireModel):
    """To the runner: get a round ready to be timed, and run once what is new in it."""

    order: Literal["prepare"] = "prepare"
    round: TimingRound


class TimeRound(WireModel):
    """To the runner: time the round that is ready. The one order during which nobody else may use the card."""

    order: Literal["time"] = "time"


class Reset(WireModel):
    """To the runner: forget all bundles and overwrite the whole arena."""

    order: Literal["scrub"] = "scrub"


class PoisonRanges(WireModel):
    """To the runner: overwrite memory that runs had their places in, and have no longer."""

    order: Literal["vacate"] = "vacate"
    ranges: tuple[ByteRange, ...]


class AttachArena(WireModel):
    """To the checker: look into another arena from now on, or into none; the former one is let go."""

    order: Literal["attend"] = "attend"
    handle: str
    """The runner's inter-process handle of its arena, hexadecimal; empty for none."""
    arena_bytes: int


class DropCache(WireModel):
    """To the checker: let go of all that can be worked out again, for somebody needs the memory."""

    order: Literal["forget"] = "forget"


class SetOperator(WireModel):
    """To the checker: judge against this operator from now on, with a fresh ledger."""

    order: Literal["adopt"] = "adopt"
    operator: Operator
    graphs: tuple[Graph, ...]


class ExamineRuns(WireModel):
    """To the checker: hold runs against all checks, their red zones included."""

    order: Literal["examine"] = "examine"
    plans: dict[int, Plan]
    """By position in the bundle, those of the cases."""
    cases: tuple[RunCase, ...]
    zones: str
    """The secret that the pattern of red zones follows from, hexadecimal."""
    repeats: tuple[tuple[int, int], ...] = ()
    """Pairs of positions among the cases: of one plan on equal content, which must have given equal bits."""


class ExamineIdle(WireModel):
    """To the checker: memory that no run has a place in must be as the runner left it when it overwrote it."""

    order: Literal["examine_idle"] = "examine_idle"
    ranges: tuple[ByteRange, ...]


class ExamineRound(WireModel):
    """To the checker: look at every output that was timed, at unchanged inputs and at the red zones."""

    order: Literal["examine_round"] = "examine_round"
    plans: dict[PairSide, Plan]
    round: TimingRound
    checksums: tuple[int, ...]
    """The checksums that the runner reported for it."""


Order = Annotated[
    ClaimArena
    | LoadBundle
    | ExecuteRuns
    | PrepareRound
    | TimeRound
    | Reset
    | PoisonRanges
    | AttachArena
    | DropCache
    | SetOperator
    | ExamineRuns
    | ExamineIdle
    | ExamineRound,
    Field(discriminator="order"),
]
ORDER: TypeAdapter[Order] = TypeAdapter(Order, config=WireModel.model_config)


class ChildReady(WireModel):
    """From either child: ready for orders. From the runner again, when it has an arena."""

    answer: Literal["opened"] = "opened"
    handle: str = ""
    """From a runner with an arena: its inter-process handle, hexadecimal."""
    arena_bytes: int = 0
    card: str = ""
    """The driver's name of the card."""
    address: str = ""
    """The card's address on the bus."""
    memory_bytes: int = 0
    """From a runner: size of the card's memory."""
    versions: dict[str, str] = {}
    """Versions that influence figures: driver, cuda, torch, card."""


class CommandDone(WireModel):
    """From the runner: the order is carried out."""

    answer: Literal["done"] = "done"


class TimedRound(WireModel):
    """From the runner: what a round took."""

    answer: Literal["timed"] = "timed"
    samples_us: tuple[float, ...]
    """Microseconds a call, in the order of the round's samples."""
    wall_us: float
    """The whole round by the host's clock."""
    starts_us: tuple[float, ...]
    """When samples began, from the first one on, by events; in the same order."""
    holds_us: tuple[float, ...]
    """When the card was held no longer before them, from the first one on, by its timer, which kernels of ours read."""
    checksums: tuple[int, ...]
    """Checksum after each sample over all memory that it may write to (`workers.device_kernels.DeviceKernels.sum_up`),
    in the same order; zero for samples of our own pacer."""
    clocks_mhz: tuple[float, ...]
    """SM clock while the card was held before each sample, by its own cycle counter and timer."""


class ExaminedRuns(WireModel):
    """From the checker: None if all holds so far, otherwise the first failure."""

    answer: Literal["examined"] = "examined"
    outcome: Outcome | None = None
    reason: str = ""
    checks: tuple[CheckResult, ...] = ()
    """One result a check, over everything examined since the operator was adopted."""
    pacer: str = ""
    """In a timed round: the fault of a run of the pacer; empty if there is none."""
    secret: str = ""
    """From adopting: what contents follow from that are met again, hexadecimal; whoever shares the checker is told the
    same, so that all of them ask for the same answers."""


class CommandRefused(WireModel):
    """From the runner: the plan does not fit this card (too much shared memory, an impossible cluster, no room).

    From the checker: what is right for it does not.
    """

    answer: Literal["refused"] = "refused"
    reason: str


class DriverFault(WireModel):
    """From the runner, as its last words: the driver reported an error. Its context is gone."""

    answer: Literal["fault"] = "fault"
    error: str
    """The driver's name of the error, such as `CUDA_ERROR_ILLEGAL_ADDRESS`."""


class ChildBroken(WireModel):
    """From either child: our own machine failed; the sentence is for a log."""

    answer: Literal["broken"] = "broken"
    error: str


Reply = Annotated[
    ChildReady | CommandDone | TimedRound | ExaminedRuns | CommandRefused | DriverFault | ChildBroken,
    Field(discriminator="answer"),
]
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply, config=WireModel.model_config)
