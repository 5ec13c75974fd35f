"""Timing a candidate's plan against the pacer's: rounds of paired samples, every output of which is looked at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, exp, inf, log
from random import Random

from workers.commands import (
    ExamineRound,
    ExamineRuns,
    ExecuteRuns,
    PairSide,
    PrepareRound,
    RunSlot,
    TimedRound,
    TimedSample,
    TimeRound,
    TimingRound,
)
from workers.devices.card_processes import CardFailed
from workers.devices.clocks import check_clocks, counts_of, punctual
from workers.devices.ending import JudgementEnded
from workers.devices.trial import VariantTrial
from workers.errors import Transient
from workers.memory_layout import SMALL_ZONE_BYTES, slot_bytes
from workers.protocol import PRACTICAL_MARGIN, Outcome, Plan, Stage
from workers.timing import CONFIDENCE, Estimate, estimate

SAMPLE_US = 100.0
"""What a sample should last: events resolve 0.5 us, so a tenth of this is lost to 5 %, all of it to 0.5 %."""
MAX_CALLS = 64
"""Most calls in one sample."""
PAIRS_A_ROUND = 12
"""Most pairs timed without a pause: what a measurement of 16 pairs lacks after its first look."""
STAGES = (4, 16, 64, 256)
"""Pairs after which a race is looked at (evaluation protocol 4.3)."""
CONTEST_PAIRS = 64
"""Pairs after which a contest goes on only for a challenger that seems to be faster by the margin."""
LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / len(STAGES)
"""Of the interval at each look: whoever looks at most so many times errs no more often than `CONFIDENCE` says."""
WARM_PAIRS = 2
"""Pairs at the start of a race that do not count: the clock is still rising."""
PACER_STREAM = 2**32
"""First of the pacer's streams of content, far from the candidate's."""
PACER_STREAMS = 16
"""Least different contents that the pacer's calls are given."""
STRANGER_STREAM = 2**33
"""First of the streams of a pacer that is not ours: the holder of a cell gets contents that nobody has been given."""
CALLS_A_DECOY = 4
"""For so many calls of a sample, or a part of them, one slot more is filled that a stranger is not called on."""
PAIRS_A_FEINT = 4
"""For so many pairs of a round, or a part of them, a stranger has one sample more, which ends before all its calls."""
ROUND_S = 10.0
"""Seconds for a round; honest ones take milliseconds."""
STEADY_WITHIN = 0.03
"""How far apart the SM clocks of a pair's two samples may be for it to count (evaluation protocol 3.3, step 5)."""
MOST_UNSTEADY = 64
"""Pairs of a race that may not count; a clock that moves more often than that says nothing of either side."""
FLOOR_SHARE = 0.95
"""Share of the floor below which a time is not believed (evaluation protocol 3.3, step 7)."""
HOPELESS = 1.5
"""A candidate that is surely slower than this times its pacer is not measured further."""


@dataclass(frozen=True)
class PairedTimes:
    """What came out for one shape.

    Attributes:
        shape: Its key.
        candidate_us: Microseconds a call, pair by pair.
        pacer_us: The same of the pacer.
        calls: Calls in each sample.
        candidate_mhz: SM clock before each of the candidate's samples.
        pacer_mhz: The same of the pacer's.
        host_factor: Least time that a round took by the host's clock over what it took by the card's timer.
    """

    shape: str
    candidate_us: tuple[float, ...]
    pacer_us: tuple[float, ...]
    calls: int
    candidate_mhz: tuple[float, ...] = ()
    pacer_mhz: tuple[float, ...] = ()
    host_factor: float = 1.0

    @property
    def slowdown(self) -> Estimate:
        """Logarithm of candidate time over pacer time."""
        return estimate([log(mine / its) for mine, its in zip(self.candidate_us, self.pacer_us, strict=True)])

    @property
    def slowdown_in_cycles(self) -> Estimate:
        """The same in cycles in place of time."""
        clocks = zip(self.candidate_mhz, self.pacer_mhz, strict=True)
        times = zip(self.candidate_us, self.pacer_us, strict=True)
        pairs = zip(times, clocks, strict=True)
        return estimate([log(mine * my_mhz / (its * its_mhz)) for (mine, its), (my_mhz, its_mhz) in pairs])

    def is_hopeless(self) -> bool:
        """Whether more pairs would be wasted on the candidate."""
        return self.slowdown.bounds(LOOK_CONFIDENCE)[0] > HOPELESS

    def is_decided(self) -> bool:
        """Whether the candidate is faster by more than the practical margin for sure, or for sure is not.

        So it also is where `CONTEST_PAIRS` do not even make it seem so: equal kernels would take all pairs that there
        are. Who gives up early is never promoted for it.
        """
        low, mid, high = self.slowdown.bounds(LOOK_CONFIDENCE)
        even = 1 / (1 + PRACTICAL_MARGIN)
        return high < even or low > even or (len(self.pacer_us) >= CONTEST_PAIRS and mid >= even)


@dataclass(frozen=True)
class SamplePair:
    """One sample of each side, one after the other: microseconds a call, and the SM clock before it."""

    candidate_us: float
    pacer_us: float
    candidate_mhz: float
    pacer_mhz: float
    is_punctual: bool = True
    """Whether both began when the card was held no longer."""

    @property
    def is_steady(self) -> bool:
        """Whether both were taken at one clock, and nobody had to wait for the host."""
        if not self.is_punctual:
            return False
        slower, faster = sorted((self.candidate_mhz, self.pacer_mhz))
        return faster - slower <= STEADY_WITHIN * faster


@dataclass
class CallTime:
    """What one call of a pacer takes at a shape: it only decides how many calls make a sample, and is found out once.

    Attributes:
        single_us: Microseconds; None as long as nobody knows.
    """

    single_us: float | None = None


class PairedTimer:
    """One shape's two plans, ready to be raced.

    Args:
        trial: Holds both bundles.
        plans: Position of the shape's plan in each side's bundle.
        call_time: The pacer's, found out before the race if nobody knows it yet.
        untrusted: Whether the pacer is somebody's candidate, as the holder of a cell is.
    """

    def __init__(
        self, trial: VariantTrial, plans: dict[PairSide, int], call_time: CallTime, *, untrusted: bool = False
    ) -> None:
        self._call_time = call_time
        self._untrusted_sides = tuple(PairSide) if untrusted else (PairSide.CANDIDATE,)
        self._trial = trial
        self._plans = plans
        self._seed = trial.seed(self._plan(PairSide.CANDIDATE).shape.key)
        self._next_stream = 0
        self._host_factor = inf
        self._room = {side: slot_bytes(trial.bundles[side], self._plan(side), SMALL_ZONE_BYTES) for side in PairSide}

    def time(self, pairs: int, suffices: Callable[[PairedTimes], bool] = PairedTimes.is_hopeless) -> PairedTimes:
        """Time until there are `pairs` pairs, or what came out at a look suffices.

        Raises:
            Ended: If a timed output is wrong, or the candidate fails otherwise.
            CardFailed: If clocks disagree, or the card's does not settle.
        """
        calls = self._calls()
        most = self._pairs_that_fit(PAIRS_A_ROUND, calls)
        slots = self._lay_out(most, calls)
        shape = self._plan(PairSide.CANDIDATE).shape.key
        steady: list[SamplePair] = []
        unsteady = 0
        for stage in (*(stage for stage in STAGES if stage < pairs), pairs):
            while (missing := stage + WARM_PAIRS - len(steady)) > 0:
                found = self._round(min(most, missing), calls, slots)
                steady += [pair for pair in found if pair.is_steady]
                unsteady += sum(not pair.is_steady for pair in found)
                if unsteady > MOST_UNSTEADY:
                    moved = f"the card's clock moved by more than {STEADY_WITHIN:.0%}"
                    raise CardFailed(f"within {unsteady} pairs {moved}, or the card had to wait for the host")
            timing = timing_of(shape, steady[WARM_PAIRS:], calls, self._host_factor)
            if suffices(timing):
                break
        return timing

    def _plan(self, side: PairSide) -> Plan:
        return self._trial.bundles[side].plans[self._plans[side]]

    def _calls(self) -> int:
        """Calls a sample, from how long single ones take."""
        if self._call_time.single_us is None:
            pairs = self._pairs_that_fit(2, 1)
            self._call_time.single_us = min(pair.pacer_us for pair in self._round(pairs, 1, self._lay_out(pairs, 1)))
        calls = min(MAX_CALLS, max(1, ceil(SAMPLE_US / self._call_time.single_us)))
        while calls > 1 and not self._fits(1, calls):
            calls -= 1
        return calls

    def _fits(self, pairs: int, calls: int) -> bool:
        needed = sum(self._slots_of(side, pairs, calls) * room for side, room in self._room.items())
        return needed <= self._trial.processes.arena_bytes - 2**20

    def _slots_of(self, side: PairSide, pairs: int, calls: int) -> int:
        """Slots of a side in a round."""
        if side not in self._untrusted_sides:
            return pairs * calls
        return (pairs + truncated_of(pairs, calls)) * slots_of(calls)

    def _pairs_that_fit(self, wanted: int, calls: int) -> int:
        while wanted > 1 and not self._fits(wanted, calls):
            wanted -= 1
        return wanted

    def _lay_out(self, pairs: int, calls: int) -> dict[PairSide, tuple[RunSlot, ...]]:
        """Places for the rounds of a race; all use the same.

        Raises:
            Ended: If the arena is too small for them, or something was written where they are to be.
        """
        slots, first = {}, self._trial.somewhere()
        end = first
        for side in self._trial.random.sample(list(PairSide), 2):
            count = self._slots_of(side, pairs, calls)
            placed = self._trial.slots(side, self._plan(side), count, end, zone_bytes=SMALL_ZONE_BYTES)
            slots[side] = scatter(placed, self._trial.random)
            end = placed[-1].end
        self._trial.take(first, end, Stage.TIME)
        return slots

    def _round(self, pairs: int, calls: int, slots: Mapping[PairSide, tuple[RunSlot, ...]]) -> list[SamplePair]:
        used = {side: places[: self._slots_of(side, pairs, calls)] for side, places in slots.items()}
        samples = pair_up(pairs, calls, self._next_stream, self._trial.random, self._untrusted_sides)
        self._next_stream += len(used[PairSide.CANDIDATE])
        order = TimingRound(
            plans=self._plans, slots=used, samples=samples, seed=self._seed, untrusted_sides=self._untrusted_sides
        )
        self._trial.processes.replay(PrepareRound(round=order), ROUND_S, Stage.TIME)
        reply = self._trial.processes.replay(TimeRound(), ROUND_S, Stage.TIME)
        if not isinstance(reply, TimedRound) or counts_of(reply) != {len(samples)}:
            raise Transient("the runner did not time what it was asked to")
        plans = {side: self._plan(side) for side in PairSide}
        self._host_factor = min(self._host_factor, check_clocks(order, reply))
        examined = self._trial.processes.look(ExamineRound(plans=plans, round=order, checksums=reply.checksums))
        self._trial.settle(examined, Stage.TIME)
        if examined.pacer:
            self._blame(order, examined.pacer)
        told: dict[PairSide, list[tuple[float, float, bool]]] = {side: [] for side in PairSide}
        figures = zip(reply.samples_us, reply.clocks_mhz, punctual(reply), strict=True)
        for sample, each in zip(samples, figures, strict=True):
            if len(sample.slots) == calls:  # What a feint takes counts for nothing.
                told[sample.side].append(each)
        both = zip(told[PairSide.CANDIDATE], told[PairSide.PACER], strict=True)
        return [
            SamplePair(mine_us, its_us, my_mhz, its_mhz, mine_is and its_is)
            for (mine_us, my_mhz, mine_is), (its_us, its_mhz, its_is) in both
        ]

    def _blame(self, order: TimingRound, wrong: str) -> None:
        """Say whose fault it is that the pacer's runs, which are right alone, are wrong beside the candidate.

        Raises:
            Ended: If they are right alone.
            CardFailed: If they are not.
        """
        cases = order.cases(PairSide.PACER)
        processes, plans = self._trial.processes, {self._plans[PairSide.PACER]: self._plan(PairSide.PACER)}
        self._trial.execute(ExecuteRuns(side=PairSide.PACER, cases=cases, zones=order.seed), ROUND_S, Stage.TIME)
        alone = processes.look(ExamineRuns(plans=plans, cases=cases, zones=order.seed))
        if alone.outcome is not None:
            raise CardFailed(f"the pacer is wrong by itself: {alone.reason}")
        reason = f"it writes to memory that is not its own: a kernel that runs beside it goes wrong, {wrong}"
        raise JudgementEnded(Stage.TIME, Outcome.OUT_OF_BOUNDS, reason)


def timing_of(shape: str, pairs: Sequence[SamplePair], calls: int, host_factor: float) -> PairedTimes:
    """What pairs come to."""
    return PairedTimes(
        shape,
        tuple(pair.candidate_us for pair in pairs),
        tuple(pair.pacer_us for pair in pairs),
        calls,
        tuple(pair.candidate_mhz for pair in pairs),
        tuple(pair.pacer_mhz for pair in pairs),
        host_factor,
    )


def scatter(slots: Sequence[RunSlot], random: Random) -> tuple[RunSlot, ...]:
    """Slots in no order: a call that knew where the next one works could fetch its inputs, or do its work."""
    return tuple(random.sample(slots, len(slots)))


def slots_of(calls: int) -> int:
    """Slots that a stranger's sample has, decoys among them: a lone call has nobody in its sample to work for."""
    return calls + (ceil(calls / CALLS_A_DECOY) if calls > 1 else 0)


def truncated_of(pairs: int, calls: int) -> int:
    """Samples of a stranger in a round that end before all of their calls: a lone call cannot."""
    return ceil(pairs / PAIRS_A_FEINT) if calls > 1 else 0


def pair_up(
    pairs: int,
    calls: int,
    first_stream: int,
    random: Random,
    untrusted_sides: Sequence[PairSide] = (PairSide.CANDIDATE,),
) -> tuple[TimedSample, ...]:
    """Samples of a round: pair after pair, who goes first by lot, and feints of strangers somewhere between them.

    Which slots of a stranger are decoys, and where a feint ends, is drawn anew for every round: a call could remember
    which ones nobody was called on, and leave its work to a call that is sure to come.
    Its calls get contents that nobody has been given before: an answer that they find somewhere, their own of an
    earlier call or the pacer's, is never the one that they are asked for. A pacer of ours may meet its contents again.

    Args:
        pairs: How many.
        calls: In each sample.
        first_stream: First stream that the candidate has not been given.
        random: Seeded with a secret.
        untrusted_sides: Sides whose plans are not ours.
    """
    series = {
        side: iter(_series(side, pairs, calls, first_stream, random, side in untrusted_sides)) for side in PairSide
    }
    turns = [[next(series[side]) for side in random.sample(list(PairSide), 2)] for _ in range(pairs)]
    for truncated in (sample for side in untrusted_sides for sample in series[side]):
        turns.insert(random.randrange(len(turns) + 1), [truncated])
    return tuple(chain.from_iterable(turns))


def _series(
    side: PairSide, pairs: int, calls: int, first_stream: int, random: Random, is_untrusted: bool
) -> Iterator[TimedSample]:
    """A side's samples of a round: those of its pairs, then its feints."""
    own = slots_of(calls) if is_untrusted else calls
    for number in range(pairs + (truncated_of(pairs, calls) if is_untrusted else 0)):
        places = range(number * own, (number + 1) * own)
        if not is_untrusted:
            again = random.sample(range(max(PACER_STREAMS, calls)), calls)
            yield TimedSample(side=side, slots=tuple(places), streams=tuple(PACER_STREAM + stream for stream in again))
            continue
        first = first_stream if side is PairSide.CANDIDATE else STRANGER_STREAM + first_stream
        mine = random.sample(places, own)
        called = calls if number < pairs else random.randrange(1, calls)
        streams = tuple(first + place for place in places)
        yield TimedSample(side=side, slots=tuple(mine[:called]), decoys=tuple(mine[called:]), streams=streams)


def check_cycles(timing: PairedTimes) -> None:
    """See that who is faster for sure in time is faster in cycles, too (evaluation protocol 3.3, step 8).

    Raises:
        CardFailed: If it is not: the card ran faster for one side than for the other.
    """
    in_time, in_cycles = timing.slowdown, timing.slowdown_in_cycles
    if in_time.bounds(LOOK_CONFIDENCE)[2] < 1 / (1 + PRACTICAL_MARGIN) and in_cycles.mean >= 0:
        raise CardFailed(
            f"at {timing.shape} it takes {exp(in_time.mean):.4f} of the time and {exp(in_cycles.mean):.4f} of the "
            "cycles: the card's clock was not the same for both"
        )


def reject_below_floor(timing: PairedTimes, time_us: float, floor_us: float) -> None:
    """Refuse a time that the card's memory, or its matrix units, cannot deliver.

    Raises:
        Ended: If it is below 0.95 of the floor.
    """
    if time_us < FLOOR_SHARE * floor_us:
        reason = (
            f"{time_us:.2f} us at {timing.shape} is less than the {floor_us:.2f} us that reading its inputs once, or "
            "multiplying what has to be, takes at the card's peak: it cannot have done the work"
        )
        raise JudgementEnded(Stage.TIME, Outcome.BELOW_FLOOR, reason)
