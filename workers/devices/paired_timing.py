"""Timing a candidate's plan against the pacer's: rounds of paired samples, with every output inspected."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from math import ceil, exp, inf, log
from random import Random
from statistics import median

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
from workers.devices.ending import JudgementEnded
from workers.devices.trial import VariantTrial
from workers.errors import Transient
from workers.memory_layout import SMALL_ZONE_BYTES, pieces_of, slot_bytes
from workers.protocol import PRACTICAL_MARGIN, Outcome, Plan, Stage
from workers.timing import CONFIDENCE, Estimate, estimate

SAMPLE_US = 100.0
"""Target duration of a sample: events resolve 0.5 us, which is 0.5 % of it and 5 % of a tenth of it."""
MAX_CALLS = 64
"""Maximum number of calls in one sample."""
PAIRS_PER_ROUND, PAIRS_PER_LONG_ROUND = 12, 2
"""Maximum number of pairs without a pause: the remainder of a measurement of 16 pairs after its first look; of long
calls fewer, which exchange their places in between."""
STAGES = (4, 16, 64, 256)
"""Numbers of pairs after which a timing is looked at (evaluation protocol 4.3)."""
HEAD_TO_HEAD_PAIRS = 64
"""Pairs after which a head-to-head timing goes on only if the challenger seems to be faster by the margin."""
LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / len(STAGES)
"""Confidence of the interval at each look: over all looks an error is as rare as `CONFIDENCE` says."""
WARM_PAIRS, LONG_WARM_PAIRS = 2, 1
"""Pairs at the start of a timing that do not count, and of long calls: the clock is still rising. On an H200 the first
sample of 3.4 ms after a pause was up to 10 % faster, none later."""
PACER_STREAM = 2**32
"""First of the pacer's streams of content, far from the candidate's."""
PACER_STREAMS = 16
"""Minimum number of different contents of the pacer's calls."""
UNTRUSTED_STREAM = 2**33
"""First of the streams of an untrusted pacer: the holder of a cell gets content that is used once."""
CALLS_PER_DECOY = 4
"""Calls of an untrusted sample per decoy, rounded up: a decoy is a filled slot that is not called."""
PAIRS_PER_TRUNCATED = 4
"""Pairs of a round per truncated sample of an untrusted side, rounded up: it ends before all of its calls."""
ROUND_S = 10.0
"""Seconds for a round; honest ones take milliseconds."""
REST_S = 0.04
"""Seconds without work on the card before a round of a confirm. After heavy work, such as the writing of a round's
inputs, an H200's kernels take 1 to 9 % longer for up to 14 ms, at the same clocks: 47 of 360 rounds began so, after
this rest 1 of 326 (`docs/results/repeatability.md`)."""
STEADY_WITHIN = 0.03
"""Maximum relative difference of the SM clocks of a pair's two samples (evaluation protocol 3.3, step 5)."""
MAX_UNSTEADY = 64
"""Maximum number of uncounted pairs of a timing; a clock that moves more often tells nothing about either side."""
FLOOR_SHARE = 0.95
"""Minimum share of the floor for a credible time (evaluation protocol 3.3, step 7)."""
LONG_US, LONG_SHARE = 1000.0, 4
"""Microseconds of a call that is long, and how many times fewer pairs it takes, each round after a rest: its samples
are ten times as long as `SAMPLE_US`, and the inspection of all its outputs took 5 to 15 s for 16 pairs."""
HOPELESS = 1.5
"""Slowdown against the pacer beyond which a candidate is not measured further."""
CLOCKS_WITHIN, CLOCKS_US = 0.01, 20.0
"""Maximum difference of events and the card's timer over a round: a share, and the ends of two holds. On H100s and
H200s whose hosts had more work than cores, a first or last sample began later than that in one round of ten thousand,
by up to 7 ms. A sample that the host does not queue while the card is held begins when it is queued."""


@dataclass(frozen=True)
class PairedTimes:
    """Times at one shape.

    Attributes:
        shape: Its key.
        candidate_us: Microseconds per call, pair by pair.
        pacer_us: The same of the pacer.
        calls: Calls in each sample.
        candidate_mhz: SM clock before each of the candidate's samples.
        pacer_mhz: The same of the pacer's.
        host_factor: Minimum ratio of a round's time by the host's clock to that by the card's timer.
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
        """The same in cycles instead of time."""
        clocks = zip(self.candidate_mhz, self.pacer_mhz, strict=True)
        times = zip(self.candidate_us, self.pacer_us, strict=True)
        pairs = zip(times, clocks, strict=True)
        return estimate([log(mine * my_mhz / (its * its_mhz)) for (mine, its), (my_mhz, its_mhz) in pairs])

    def is_hopeless(self) -> bool:
        """Return True if more pairs would be wasted on the candidate."""
        return self.slowdown.bounds(LOOK_CONFIDENCE)[0] > HOPELESS

    def is_decided(self) -> bool:
        """Return True if the candidate is surely faster by more than the practical margin, or surely is not.

        Also True if it does not even seem faster after `HEAD_TO_HEAD_PAIRS`: equal kernels would take all pairs. An
        early end never promotes.
        """
        low, mid, high = self.slowdown.bounds(LOOK_CONFIDENCE)
        even = 1 / (1 + PRACTICAL_MARGIN)
        seems_no_faster = len(self.pacer_us) >= HEAD_TO_HEAD_PAIRS and mid >= even
        return high < even or low > even or seems_no_faster


@dataclass(frozen=True)
class SamplePair:
    """One sample of each side, one after the other: microseconds per call, and the SM clock before it."""

    candidate_us: float
    pacer_us: float
    candidate_mhz: float
    pacer_mhz: float
    is_punctual: bool = True
    """True if both began as soon as the card was released."""

    @property
    def is_steady(self) -> bool:
        """True if both ran at one clock, and neither waited for the host."""
        if not self.is_punctual:
            return False
        slower, faster = sorted((self.candidate_mhz, self.pacer_mhz))
        return faster - slower <= STEADY_WITHIN * faster


@dataclass
class CallTime:
    """Microseconds of a pacer's call at a shape, measured once; they only decide how many calls make a sample."""

    single_us: float | None = None

    @property
    def is_long(self) -> bool:
        """True if few pairs tell enough."""
        return self.single_us is not None and self.single_us >= LONG_US


class PairedTimer:
    """Timer of one shape's two plans.

    Args:
        trial: Holds both bundles.
        plans: Position of the shape's plan in each side's bundle.
        call_time: Call time of the pacer, measured first if unknown.
        untrusted: True if the pacer is a candidate too, such as the holder of a cell.
        rest_s: Seconds without work on the card before each round; of a long call it rests anyway.
    """

    def __init__(
        self,
        trial: VariantTrial,
        plans: dict[PairSide, int],
        call_time: CallTime,
        *,
        untrusted: bool = False,
        rest_s: float = 0.0,
    ) -> None:
        self._call_time = call_time
        self._rest_s = rest_s
        self._untrusted_sides = tuple(PairSide) if untrusted else (PairSide.CANDIDATE,)
        self._trial = trial
        self._plans = plans
        self._seed = trial.seed(self._plan(PairSide.CANDIDATE).shape.key)
        self._next_stream = 0
        self._leading: PairSide | None = None
        self._host_factor = inf
        self._room = {side: slot_bytes(trial.bundles[side], self._plan(side), SMALL_ZONE_BYTES) for side in PairSide}

    def time(self, pairs: int, suffices: Callable[[PairedTimes], bool] = PairedTimes.is_hopeless) -> PairedTimes:
        """Time until there are `pairs` pairs, a quarter of them if a call is long, or the result of a look suffices.

        Raises:
            JudgementEnded: If a timed output is wrong, or the candidate fails otherwise.
            CardFailed: If clocks disagree, or the card's clock does not settle.
        """
        calls = self._calls()
        is_long = self._call_time.is_long
        warm = LONG_WARM_PAIRS if is_long else WARM_PAIRS
        if is_long:
            pairs, self._rest_s = max(STAGES[0], pairs // LONG_SHARE), REST_S
            self._leading = self._trial.random.choice(list(PairSide))
        most = self._pairs_that_fit(PAIRS_PER_LONG_ROUND if is_long else PAIRS_PER_ROUND, calls)
        slots = self._lay_out(most, calls)
        shape = self._plan(PairSide.CANDIDATE).shape.key
        steady: list[SamplePair] = []
        unsteady = 0
        for stage in (*(stage for stage in STAGES if stage < pairs), pairs):
            while (missing := stage + warm - len(steady)) > 0:
                found = self._round(min(most, missing), calls, slots)
                slots = self._exchanged(slots) if is_long else slots
                steady += [pair for pair in found if pair.is_steady]
                unsteady += sum(not pair.is_steady for pair in found)
                if unsteady > MAX_UNSTEADY:
                    moved = f"the card's clock moved by more than {STEADY_WITHIN:.0%}"
                    raise CardFailed(f"within {unsteady} pairs {moved}, or the card had to wait for the host")
            timing = timing_of(shape, steady[warm:], calls, self._host_factor)
            if suffices(timing):
                break
        return timing

    def _plan(self, side: PairSide) -> Plan:
        return self._trial.bundles[side].plans[self._plans[side]]

    def _calls(self) -> int:
        """Return the number of calls per sample, from the time of single ones."""
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
        """Return the number of slots of a side in a round."""
        if side not in self._untrusted_sides:
            return pairs * calls
        return (pairs + truncated_of(pairs, calls)) * slots_of(calls)

    def _pairs_that_fit(self, wanted: int, calls: int) -> int:
        while wanted > 1 and not self._fits(wanted, calls):
            wanted -= 1
        return wanted

    def _lay_out(self, pairs: int, calls: int) -> dict[PairSide, tuple[RunSlot, ...]]:
        """Place the slots of a timing's rounds; all rounds use the same."""
        slots, first = {}, self._trial.somewhere()
        end = first
        for side in self._trial.random.sample(list(PairSide), 2):
            count = self._slots_of(side, pairs, calls)
            placed = self._trial.slots(side, self._plan(side), count, end, zone_bytes=SMALL_ZONE_BYTES)
            slots[side] = scatter(placed, self._trial.random)
            end = placed[-1].end
        self._trial.take(first, end, Stage.TIME)
        return slots

    def _exchanged(self, slots: dict[PairSide, tuple[RunSlot, ...]]) -> dict[PairSide, tuple[RunSlot, ...]]:
        """Exchange the sides' slots, if their runs take the same memory: a sample of one call depends on its place."""
        mine, its = (pieces_of(self._trial.bundles[side], self._plan(side)) for side in PairSide)
        return dict(zip(slots, reversed(slots.values()), strict=True)) if mine == its else slots

    def _round(self, pairs: int, calls: int, slots: Mapping[PairSide, tuple[RunSlot, ...]]) -> list[SamplePair]:
        used = {side: places[: self._slots_of(side, pairs, calls)] for side, places in slots.items()}
        leading = self._leading
        samples = pair_up(pairs, calls, self._next_stream, self._trial.random, self._untrusted_sides, leading=leading)
        if leading is not None and pairs % 2:
            self._leading = _other(leading)
        self._next_stream += len(used[PairSide.CANDIDATE])
        order = TimingRound(
            plans=self._plans, slots=used, samples=samples, seed=self._seed, untrusted_sides=self._untrusted_sides
        )
        self._trial.processes.replay(PrepareRound(round=order), ROUND_S, Stage.TIME)
        reply = self._trial.processes.replay(TimeRound(rest_s=self._rest_s), ROUND_S, Stage.TIME)
        if not isinstance(reply, TimedRound) or counts_of(reply) != {len(samples)}:
            raise Transient("the figures of the runner do not match the round")
        plans = {side: self._plan(side) for side in PairSide}
        self._host_factor = min(self._host_factor, check_clocks(order, reply))
        self._look_at(ExamineRound(plans=plans, round=order, checksums=reply.checksums))
        timed: dict[PairSide, list[tuple[float, float, bool]]] = {side: [] for side in PairSide}
        figures = zip(reply.samples_us, reply.clocks_mhz, punctual(reply), strict=True)
        for sample, each in zip(samples, figures, strict=True):
            if len(sample.slots) == calls:  # Truncated samples do not count.
                timed[sample.side].append(each)
        both = zip(timed[PairSide.CANDIDATE], timed[PairSide.PACER], strict=True)
        return [
            SamplePair(mine_us, its_us, my_mhz, its_mhz, mine_is and its_is)
            for (mine_us, my_mhz, mine_is), (its_us, its_mhz, its_is) in both
        ]

    def _look_at(self, order: ExamineRound) -> None:
        """Have the oracle look at all runs of a round."""
        wrong = self._trial.inspect(order, Stage.TIME)
        if wrong:
            self._blame(order.round, wrong)

    def _blame(self, order: TimingRound, wrong: str) -> None:
        """Decide why the pacer's runs are wrong beside the candidate, by running them alone."""
        cases = order.cases(PairSide.PACER)
        plans = {self._plans[PairSide.PACER]: self._plan(PairSide.PACER)}
        self._trial.execute(ExecuteRuns(side=PairSide.PACER, cases=cases, zones=order.seed), ROUND_S, Stage.TIME)
        is_own = self._plan(PairSide.PACER) == self._plan(PairSide.CANDIDATE)
        for alone in self._trial.looks(ExamineRuns(plans=plans, cases=cases, zones=order.seed)):
            if alone.outcome is not None and is_own:
                raise JudgementEnded(Stage.TIME, alone.outcome, alone.reason)
            if alone.outcome is not None:
                raise CardFailed(f"the pacer is wrong on its own: {alone.reason}")
        reason = f"it writes to memory that is not its own: a kernel beside it gives wrong results, {wrong}"
        raise JudgementEnded(Stage.TIME, Outcome.OUT_OF_BOUNDS, reason)


def timing_of(shape: str, pairs: Sequence[SamplePair], calls: int, host_factor: float) -> PairedTimes:
    """Return the times of pairs."""
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
    """Return slots in random order: a call that knew the next one's slot could fetch its inputs, or do its work."""
    return tuple(random.sample(slots, len(slots)))


def slots_of(calls: int) -> int:
    """Return the slots of an untrusted sample, decoys included: a lone call has no other call to work for."""
    return calls + (ceil(calls / CALLS_PER_DECOY) if calls > 1 else 0)


def truncated_of(pairs: int, calls: int) -> int:
    """Return the number of truncated samples of an untrusted side in a round: a lone call cannot be truncated."""
    return ceil(pairs / PAIRS_PER_TRUNCATED) if calls > 1 else 0


def pair_up(
    pairs: int,
    calls: int,
    first_stream: int,
    random: Random,
    untrusted_sides: Sequence[PairSide] = (PairSide.CANDIDATE,),
    *,
    leading: PairSide | None = None,
) -> tuple[TimedSample, ...]:
    """Return the samples of a round: pair after pair in random order within each, and truncated samples in between.

    Decoys of an untrusted sample, and the end of a truncated one, are drawn anew for every round. Otherwise a call
    could remember which slots were never called, and leave its work to a call that is sure to come. Its calls get
    contents that are used once: an answer found somewhere, from its own earlier call or the pacer's, is never the right
    one. A trusted pacer may get its contents again.

    Args:
        pairs: Number of pairs.
        calls: Number of calls in each sample.
        first_stream: First stream that the candidate has not been given.
        random: Seeded with a secret.
        untrusted_sides: Sides whose plans are not trusted.
        leading: The side that comes first in the first pair, last in the second, and so on, so that a few pairs are
            balanced; a random one in each pair if None.
    """
    series = {
        side: iter(_series(side, pairs, calls, first_stream, random, side in untrusted_sides)) for side in PairSide
    }
    turns = []
    for number in range(pairs):
        first = random.choice(list(PairSide)) if leading is None else _other(leading) if number % 2 else leading
        turns.append([next(series[side]) for side in (first, _other(first))])
    for truncated in (sample for side in untrusted_sides for sample in series[side]):
        turns.insert(random.randrange(len(turns) + 1), [truncated])
    return tuple(chain.from_iterable(turns))


def _other(side: PairSide) -> PairSide:
    return next(each for each in PairSide if each is not side)


def _series(
    side: PairSide, pairs: int, calls: int, first_stream: int, random: Random, is_untrusted: bool
) -> Iterator[TimedSample]:
    """Yield a side's samples of a round: those of its pairs, then its truncated ones."""
    own = slots_of(calls) if is_untrusted else calls
    for number in range(pairs + (truncated_of(pairs, calls) if is_untrusted else 0)):
        places = range(number * own, (number + 1) * own)
        if not is_untrusted:
            again = random.sample(range(max(PACER_STREAMS, calls)), calls)
            yield TimedSample(side=side, slots=tuple(places), streams=tuple(PACER_STREAM + stream for stream in again))
            continue
        first = first_stream if side is PairSide.CANDIDATE else UNTRUSTED_STREAM + first_stream
        mine = random.sample(places, own)
        called = calls if number < pairs else random.randrange(1, calls)
        streams = tuple(first + place for place in places)
        yield TimedSample(side=side, slots=tuple(mine[:called]), decoys=tuple(mine[called:]), streams=streams)


def punctual(timed: TimedRound) -> list[bool]:
    """Return which samples of a round began as soon as the card was released: as long after the hold as most did."""
    lags = [start_us - hold_us for start_us, hold_us in zip(timed.starts_us, timed.holds_us, strict=True)]
    usual = median(lags)
    return [abs(lag - usual) <= CLOCKS_WITHIN * timed.holds_us[-1] + CLOCKS_US for lag in lags]


def check_clocks(order: TimingRound, timed: TimedRound) -> float:
    """Compare three clocks over a round: that of events, the card's timer, and the host's.

    Events and timer measure the same interval, from the first sample that began in time to the last one. The host's
    clock begins before it and ends after it, and a host may be delayed: the controls judge by how much.

    Returns:
        The round by the host's clock over the round by the timer, which leaves out one of its samples.

    Raises:
        CardFailed: If they disagree.
    """
    timer_us = timed.holds_us[-1]
    if min(timed.clocks_mhz) <= 0 or timer_us <= 0:
        raise CardFailed("the card's clock and its timer stand still")
    sampled_us = sum(us * len(sample.slots) for sample, us in zip(order.samples, timed.samples_us, strict=True))
    longest_us = max(sampled_us, timer_us)
    if longest_us > timed.wall_us:
        raise CardFailed(f"the card says {longest_us:.0f} us of a round that took {timed.wall_us:.0f} us in all")
    counts = punctual(timed)
    starts_us, holds_us = (_span_us(begun_us, counts) for begun_us in (timed.starts_us, timed.holds_us))
    if abs(starts_us - holds_us) > CLOCKS_WITHIN * holds_us + CLOCKS_US:
        raise CardFailed(f"events say {starts_us:.0f} us of what took {holds_us:.0f} us by the card's timer")
    count = len(order.samples)
    return timed.wall_us * (count - 1) / (count * timer_us)


def counts_of(timed: TimedRound) -> set[int]:
    """Return the number of samples of each figure."""
    return {len(each) for each in (timed.samples_us, timed.clocks_mhz, timed.starts_us, timed.holds_us)}


def _span_us(begun_us: Sequence[float], counts: Sequence[bool]) -> float:
    """Return the time from the first counted sample to the last; from all samples if most do not count."""
    counted = list(compress(begun_us, counts)) if 2 * sum(counts) >= len(counts) else begun_us
    return counted[-1] - counted[0]


def check_cycles(timing: PairedTimes) -> None:
    """Check that a surely faster side is faster in cycles as well (evaluation protocol 3.3, step 8).

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
    """Refuse a time that the card's memory, or its matrix units, cannot reach.

    Raises:
        JudgementEnded: If it is below 0.95 of the floor.
    """
    if time_us < FLOOR_SHARE * floor_us:
        reason = (
            f"{time_us:.2f} us at {timing.shape} is less than the {floor_us:.2f} us that reading its inputs once, or "
            "multiplying what has to be, takes at the card's peak: it cannot have done the work"
        )
        raise JudgementEnded(Stage.TIME, Outcome.BELOW_FLOOR, reason)
