"""The clocks of a round, held against each other: the host's, that of events, and the card's timer."""

from collections.abc import Sequence
from itertools import compress
from statistics import median

from workers.commands import TimedRound, TimingRound
from workers.devices.card_processes import CardFailed

CLOCKS_WITHIN, CLOCKS_US = 0.01, 20.0
"""How far events and the card's timer may be apart over a round: a share, and the ends of two holds. On H100s and H200s
whose hosts had more to do than cores, one round in ten thousand had a first or last sample that began later than that,
by up to 7 ms: a sample that the host does not queue while the card is held begins when it does."""


def punctual(timed: TimedRound) -> list[bool]:
    """Which samples of a round began when the card was held no longer: as long after as most of them did."""
    lags = [start_us - hold_us for start_us, hold_us in zip(timed.starts_us, timed.holds_us, strict=True)]
    usual = median(lags)
    return [abs(lag - usual) <= CLOCKS_WITHIN * timed.holds_us[-1] + CLOCKS_US for lag in lags]


def check_clocks(order: TimingRound, timed: TimedRound) -> float:
    """Hold three clocks against each other over a round: that of events, the card's timer, and the host's.

    Events and timer measure the same stretch, from the first sample that began in time to the last one. The host's
    clock begins before it and ends after it, and a host may be kept waiting: how much longer is told, for controls to
    judge.

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
    """Of how many samples each figure is told."""
    return {len(each) for each in (timed.samples_us, timed.clocks_mhz, timed.starts_us, timed.holds_us)}


def _span_us(begun_us: Sequence[float], counts: Sequence[bool]) -> float:
    """From the first sample that counts to the last one; from first to last where most do not: then clocks differ."""
    counted = list(compress(begun_us, counts)) if 2 * sum(counts) >= len(counts) else begun_us
    return counted[-1] - counted[0]
