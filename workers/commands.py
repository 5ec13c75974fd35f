"""Commands from the executor of a card to its two processes: the runner, which replays, and the oracle, which checks.

The executor decides everything that is random or must be trusted: the place and content of buffers, and the order in
which sides are timed. The runner only replays and times; the oracle only inspects. Commands and answers are one JSON
object per line, over a pipe. Offsets and sizes are in bytes from the start of the runner's arena.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from workers.protocol import Bundle, CardSheet, CheckResult, Graph, Operator, Outcome, Plan
from workers.protocol.base import WireModel

TIMED = "timed"
"""The draw of timed content: counter-based, by our own fused kernels. `workers.inputs` has all other draws."""

SECRET_BYTES = 16
"""Bytes of each secret that content and red zones are derived from."""

ByteRange = tuple[int, int]
"""A byte range of the arena, (start, end)."""

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
    """Offsets of the global and the profile scratch of each launch of the plan, in order; -1 where it takes none."""
    zones: tuple[tuple[int, int], ...]
    """Red zones, (offset, bytes): everything between `start` and `end` that no buffer and no scratch covers."""


class InputContent(WireModel):
    """The input values of a run. Equal contents give equal values in every process."""

    draw: str
    """`timed`, or a name in `workers.inputs.DRAWS`."""
    seed: str
    """The secret, hexadecimal."""
    stream: int = 0
    """Number of one of many independent contents under one seed; timed content only."""


class RunCase(WireModel):
    """One run of a side's plan: the plan, its memory and its input values."""

    plan: int
    """Position of the plan in its side's bundle."""
    slot: RunSlot
    content: InputContent
    poison: int = POISON
    """Value of every byte outside the run's inputs."""
    concurrent_load: bool = False
    """True if kernels of ours run beside it, so that its programs are scheduled in another order."""


class TimedSample(WireModel):
    """One timed sample: `slots` are run one after the other, each on a stream of timed content of its own.

    Decoys are filled as slots are, but no run uses them before the round is over. A call that computes results of other
    calls in advance fills decoys too, and so is found out.
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
        """The slots with their streams."""
        return list(zip(self.filled, self.streams, strict=True))[: len(self.slots)]

    @property
    def uncalled(self) -> list[tuple[int, int]]:
        """The decoys with their streams."""
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
    """Sides whose plans are untrusted: memory that their samples write is checksummed as soon as a sample ends."""

    def cases(self, side: PairSide) -> tuple[RunCase, ...]:
        """Return a side's runs, in the order in which they are timed."""
        return self._cases(side, (pair for sample in self._of(side) for pair in sample.called))

    def decoys(self, side: PairSide) -> tuple[RunCase, ...]:
        """Return the runs that are prepared in full for a side, and never executed."""
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
    """To the runner, first and once: allocate the memory of the arena, and overwrite it."""

    order: Literal["claim"] = "claim"
    arena_bytes: int


class LoadBundle(WireModel):
    """To the runner: load a side's bundle in place of its previous one."""

    order: Literal["load"] = "load"
    side: PairSide
    operator: Operator
    bundle: Bundle
    machine_code: dict[str, str]
    """Machine code of every kernel by its digest, base64; from the executor, never from a trace worker."""


class ExecuteRuns(WireModel):
    """To the runner: fill the inputs of all cases, poison everything else, run them in order, and wait for the last."""

    order: Literal["execute"] = "execute"
    side: PairSide
    cases: tuple[RunCase, ...]
    zones: str
    """The secret that the pattern of red zones follows from, hexadecimal."""


class PrepareRound(WireModel):
    """To the runner: prepare a round for timing, and run once what is new in it."""

    order: Literal["prepare"] = "prepare"
    round: TimingRound


class TimeRound(WireModel):
    """To the runner: time the prepared round. No other process may use the card during this command."""

    order: Literal["time"] = "time"
    rest_s: float = Field(default=0.0, ge=0.0, le=1.0)
    """Seconds without work on the card before it."""


class Reset(WireModel):
    """To the runner: drop all bundles and overwrite the whole arena."""

    order: Literal["scrub"] = "scrub"


class PoisonRanges(WireModel):
    """To the runner: overwrite memory whose slots are gone."""

    order: Literal["vacate"] = "vacate"
    ranges: tuple[ByteRange, ...]


class AttachArena(WireModel):
    """To the oracle: open another arena, or none; the previous one is closed."""

    order: Literal["attend"] = "attend"
    handle: str
    """The runner's inter-process handle of its arena, hexadecimal; empty for none."""
    arena_bytes: int
    alone: bool = False
    """True if no other process of ours has memory on the card: the oracle may use all that is left."""


class DropCache(WireModel):
    """To the oracle: drop everything that can be recomputed, because another process needs the memory."""

    order: Literal["forget"] = "forget"


class SetOperator(WireModel):
    """To the oracle: check against this operator from now on, with empty check results."""

    order: Literal["adopt"] = "adopt"
    operator: Operator
    graphs: tuple[Graph, ...]
    fresh: bool = False
    """True if all content of its runs is used once: no answer is worth a place in memory."""


class ExamineRuns(WireModel):
    """To the oracle: apply all checks to runs, their red zones included."""

    order: Literal["examine"] = "examine"
    plans: dict[int, Plan]
    """The plans of the cases, by position in the bundle."""
    cases: tuple[RunCase, ...]
    zones: str
    """The secret that the pattern of red zones follows from, hexadecimal."""
    repeats: tuple[tuple[int, int], ...] = ()
    """Pairs of positions of cases with one plan and equal content, which must give equal bits."""
    decides: str = ""
    """The check whose doubt these cases decide, one fresh draw each; all other checks leave them out. Empty for cases
    that every check examines."""


class ExamineIdle(WireModel):
    """To the oracle: check that memory outside all slots still holds what the runner overwrote it with."""

    order: Literal["examine_idle"] = "examine_idle"
    ranges: tuple[ByteRange, ...]


class ExamineRound(WireModel):
    """To the oracle: check every timed output, unchanged inputs and the red zones."""

    order: Literal["examine_round"] = "examine_round"
    plans: dict[PairSide, Plan]
    round: TimingRound
    checksums: tuple[int, ...]
    """The checksums that the runner reported for it."""


class ExamineMore(WireModel):
    """To the oracle: go on with the last examination, of which nothing is sent again."""

    order: Literal["examine_more"] = "examine_more"
    start: int = Field(gt=0)
    """Number of contents that were looked at before."""


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
    | ExamineRound
    | ExamineMore,
    Field(discriminator="order"),
]
ORDER: TypeAdapter[Order] = TypeAdapter(Order, config=WireModel.model_config)


class ChildReady(WireModel):
    """From either child: ready for commands. From the runner again, when it has an arena."""

    answer: Literal["opened"] = "opened"
    handle: str = ""
    """From a runner with an arena: its inter-process handle, hexadecimal."""
    arena_bytes: int = 0
    card: str = ""
    """The driver's name of the card."""
    address: str = ""
    """The card's address on the bus."""
    sheet: CardSheet | None = None
    """From a runner: facts of the card, without the highest clock of its SMs."""
    versions: dict[str, str] = {}
    """Versions that influence figures: driver, cuda, torch, card."""


class CommandDone(WireModel):
    """From the runner: the command is done."""

    answer: Literal["done"] = "done"


class TimedRound(WireModel):
    """From the runner: the times of a round."""

    answer: Literal["timed"] = "timed"
    samples_us: tuple[float, ...]
    """Microseconds per call, in the order of the round's samples."""
    wall_us: float
    """The whole round by the host's clock."""
    starts_us: tuple[float, ...]
    """Start of each sample in microseconds after the first one, by events; in the same order."""
    holds_us: tuple[float, ...]
    """End of the hold before each sample, in microseconds after the first one, by the timer of the card."""
    checksums: tuple[int, ...]
    """Checksum after each sample over all memory that it may write to (`workers.device_kernels.DeviceKernels.sum_up`),
    in the same order; zero for samples of our own pacer."""
    clocks_mhz: tuple[float, ...]
    """SM clock during the hold before each sample, by the card's cycle counter and timer."""


class OpenDoubt(WireModel):
    """A statistic of a run that one draw cannot decide: further draws of the same plan and kind must."""

    check: str
    """Name of the check."""
    plan: int
    """Position of the plan in the candidate's bundle."""
    draw: str
    """Kind of the content."""
    draws: int
    """Number of fresh draws that decide it."""


class ExaminedRuns(WireModel):
    """From the oracle: `outcome` is None if all checks have passed so far, otherwise the first failure."""

    answer: Literal["examined"] = "examined"
    outcome: Outcome | None = None
    reason: str = ""
    checks: tuple[CheckResult, ...] = ()
    """One result per check, over all examinations since the operator was set."""
    doubts: tuple[OpenDoubt, ...] = ()
    """Doubts that this examination raised. Each must be decided before the variant counts as correct."""
    pacer: str = ""
    """In a timed round: the fault of a run of the pacer; empty if there is none."""
    next: int | None = None
    """Number of contents looked at so far, if others are left: `ExamineMore` goes on from there."""
    secret: str = ""
    """After `SetOperator`, unless it is `fresh`: the secret of the operator's contents that are used repeatedly,
    hexadecimal. All executors that share the oracle get the same one, so that they ask for the same answers."""


class CommandRefused(WireModel):
    """From the runner: the plan does not fit this card (too much shared memory, an impossible cluster, no memory).

    From the oracle: the memory does not suffice for the expected results.
    """

    answer: Literal["refused"] = "refused"
    reason: str


class DriverFault(WireModel):
    """From the runner, as its last message: the driver reported an error. Its context is gone.

    From the oracle, as its last message: the reference used an index outside a tensor. The text is for the user.
    """

    answer: Literal["fault"] = "fault"
    error: str
    """The driver's name of the error, such as `CUDA_ERROR_ILLEGAL_ADDRESS`."""


class ChildBroken(WireModel):
    """From either child: our own machine failed; the text is for a log."""

    answer: Literal["broken"] = "broken"
    error: str


Reply = Annotated[
    ChildReady | CommandDone | TimedRound | ExaminedRuns | CommandRefused | DriverFault | ChildBroken,
    Field(discriminator="answer"),
]
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply, config=WireModel.model_config)
