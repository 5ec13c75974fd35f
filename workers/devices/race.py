"""Timing a candidate's plan against the pacer's: rounds of paired samples, every output of which is looked at."""

from dataclasses import dataclass
from math import ceil, log
from random import Random

from workers.devices.trial import Trial
from workers.devices.verdict import Ended
from workers.errors import Transient
from workers.orders import ExamineRound, Round, Sample, Side, Timed, TimeRound
from workers.placement import SMALL_ZONE_BYTES, slot_bytes
from workers.protocol import Outcome, Plan, Stage
from workers.timing import Estimate, estimate

SAMPLE_US = 100.0
"""What a sample should last: events resolve 0.5 us, so a tenth of this is lost to 5 %, all of it to 0.5 %."""
MAX_CALLS = 64
"""Most calls in one sample."""
PAIRS_A_ROUND = 8
WARM_PAIRS = 2
"""Pairs at the start of a race that do not count: the clock is still rising."""
PACER_STREAM = 2**32
"""First of the pacer's streams of content, far from the candidate's."""
PACER_STREAMS = 16
"""Least different contents that the pacer's calls are given."""
ROUND_S = 10.0
"""Seconds for a round; honest ones take milliseconds."""
FLOOR_SHARE = 0.95
"""Share of the floor below which a time is not believed (evaluation protocol 3.3, step 7)."""
HOPELESS = 1.5
"""A candidate this much slower than its pacer, by all pairs of the first round, is not measured further."""


@dataclass(frozen=True)
class Race:
    """What came out for one shape.

    Attributes:
        shape: Its key.
        candidate_us: Microseconds a call, pair by pair.
        pacer_us: The same of the pacer.
        calls: Calls in each sample.
    """

    shape: str
    candidate_us: tuple[float, ...]
    pacer_us: tuple[float, ...]
    calls: int

    @property
    def slowdown(self) -> Estimate:
        """Logarithm of candidate time over pacer time."""
        return estimate([log(mine / its) for mine, its in zip(self.candidate_us, self.pacer_us, strict=True)])


class Track:
    """One shape's two plans, ready to be raced.

    Args:
        trial: Holds both bundles.
        plans: Position of the shape's plan in each side's bundle.
        seed: Secret of the timed content, hexadecimal.
    """

    def __init__(self, trial: Trial, plans: dict[Side, int], seed: str) -> None:
        self._trial = trial
        self._plans = plans
        self._seed = seed
        self._next_stream = 0
        self._room = {side: slot_bytes(trial.bundles[side], self._plan(side), SMALL_ZONE_BYTES) for side in Side}

    def race(self, pairs: int) -> Race:
        """Time until there are `pairs` pairs, or the candidate is hopelessly slow.

        Raises:
            Ended: If a timed output is wrong, or the candidate fails otherwise.
        """
        calls = self._calls()
        mine: list[float] = []
        its: list[float] = []
        while len(mine) < pairs + WARM_PAIRS:
            wanted = min(PAIRS_A_ROUND, pairs + WARM_PAIRS - len(mine))
            times = self._round(self._pairs_that_fit(wanted, calls), calls)
            mine += times[Side.CANDIDATE]
            its += times[Side.PACER]
            if len(mine) >= PAIRS_A_ROUND and all(a > HOPELESS * b for a, b in zip(mine, its, strict=True)):
                break
        shape = self._plan(Side.CANDIDATE).shape.key
        return Race(shape, tuple(mine[WARM_PAIRS:]), tuple(its[WARM_PAIRS:]), calls)

    def _plan(self, side: Side) -> Plan:
        return self._trial.bundles[side].plans[self._plans[side]]

    def _calls(self) -> int:
        """Calls a sample, from how long single ones take."""
        single = min(self._round(2, 1)[Side.PACER])
        calls = min(MAX_CALLS, max(1, ceil(SAMPLE_US / single)))
        while calls > 1 and not self._fits(1, calls):
            calls -= 1
        return calls

    def _fits(self, pairs: int, calls: int) -> bool:
        return pairs * calls * sum(self._room.values()) <= self._trial.crew.arena_bytes - 2**20

    def _pairs_that_fit(self, wanted: int, calls: int) -> int:
        while wanted > 1 and not self._fits(wanted, calls):
            wanted -= 1
        return wanted

    def _round(self, pairs: int, calls: int) -> dict[Side, list[float]]:
        order = self._plan_round(pairs, calls)
        reply = self._trial.crew.replay(TimeRound(round=order), ROUND_S, Stage.TIME)
        if not isinstance(reply, Timed) or len(reply.samples_us) != len(order.samples):
            raise Transient("the runner did not time what it was asked to")
        plans = {side: self._plan(side) for side in Side}
        self._trial.settle(self._trial.crew.look(ExamineRound(plans=plans, round=order)), Stage.TIME)
        times: dict[Side, list[float]] = {side: [] for side in Side}
        for sample, time_us in zip(order.samples, reply.samples_us, strict=True):
            times[sample.side].append(time_us)
        return times

    def _plan_round(self, pairs: int, calls: int) -> Round:
        random = self._trial.random
        sides = random.sample(list(Side), 2)
        slots, start = {}, self._trial.somewhere()
        for side in sides:
            slots[side] = self._trial.slots(side, self._plan(side), pairs * calls, start, zone_bytes=SMALL_ZONE_BYTES)
            start = slots[side][-1].end
        samples = pair_up(pairs, calls, self._next_stream, random)
        self._next_stream += pairs * calls
        return Round(plans=self._plans, slots=slots, samples=samples, seed=self._seed)


def pair_up(pairs: int, calls: int, first_stream: int, random: Random) -> tuple[Sample, ...]:
    """Samples of a round: pair after pair, who goes first by lot.

    The candidate's calls get contents that nobody has been given before: an answer that it finds somewhere, its own of
    an earlier call or the pacer's, is never the one it is asked for. The pacer is ours, and its contents may return.
    Calls come to their slots in no order, so that no call can tell where the next one will find its inputs.

    Args:
        pairs: How many.
        calls: In each sample.
        first_stream: First stream that the candidate has not been given.
        random: Seeded with a secret.
    """
    samples: list[Sample] = []
    shuffled = {side: random.sample(range(pairs * calls), pairs * calls) for side in Side}
    for pair in range(pairs):
        places = range(pair * calls, (pair + 1) * calls)
        streams = {
            Side.CANDIDATE: tuple(first_stream + place for place in places),
            Side.PACER: tuple(PACER_STREAM + n for n in random.sample(range(max(PACER_STREAMS, calls)), calls)),
        }
        samples += [
            Sample(side=side, slots=tuple(shuffled[side][place] for place in places), streams=streams[side])
            for side in random.sample(list(Side), 2)
        ]
    return tuple(samples)


def reject_below_floor(race: Race, time_us: float, floor_us: float) -> None:
    """Refuse a time that the card's memory cannot deliver.

    Raises:
        Ended: If it is below 0.95 of the floor.
    """
    if time_us < FLOOR_SHARE * floor_us:
        reason = (
            f"{time_us:.2f} us at {race.shape} is less than the {floor_us:.2f} us that reading the inputs once takes: "
            "it cannot have done the work"
        )
        raise Ended(Stage.TIME, Outcome.BELOW_FLOOR, reason)
