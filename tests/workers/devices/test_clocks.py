"""When the clocks of a round are believed, and which samples began when the card was held no longer."""

from random import Random

import pytest

from workers.commands import TimedRound, TimingRound
from workers.devices.card_processes import CardFailed
from workers.devices.clocks import check_clocks, punctual
from workers.devices.paired_timing import pair_up

TIMED = TimedRound(
    samples_us=(100.0,) * 6,
    wall_us=3900.0,
    starts_us=tuple(600.0 * number for number in range(6)),
    holds_us=tuple(601.0 * number for number in range(6)),
    checksums=(0,) * 6,
    clocks_mhz=(1980.0,) * 6,
)
ORDER = TimingRound(plans={}, slots={}, samples=pair_up(3, 1, 0, Random(5), ()), seed="00")


def slower(share: float) -> tuple[float, ...]:
    """Starts by events whose clock is slower than the timer."""
    return tuple(start_us * (1 - share) for start_us in TIMED.holds_us)


def late(number: int, by_us: float) -> TimedRound:
    """The host was kept from queueing a sample; what came before and after lies as it would, and events count anew."""
    starts_us = [start_us + by_us * (index == number) for index, start_us in enumerate(TIMED.starts_us)]
    return TIMED.model_copy(update={"starts_us": tuple(start_us - starts_us[0] for start_us in starts_us)})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wall_us": 3000.0}, "3005 us of a round that took 3000 us"),
        ({"wall_us": 3500.0, "samples_us": (600.0,) * 6}, "3600 us of a round that took 3500 us"),
        ({"starts_us": slower(0.02)}, "events say 2945 us of what took 3005 us"),
        ({"starts_us": slower(-0.02)}, "events say 3065 us of what took 3005 us"),
        ({"starts_us": slower(0.03)}, "events say 2915 us of what took 3005 us"),
        ({"starts_us": slower(0.5)}, "events say 1502 us of what took 3005 us"),
        ({"holds_us": (0.0,) * 6}, "stand still"),
        ({"clocks_mhz": (*[1980.0] * 5, 0.0)}, "stand still"),
    ],
)
def test_three_clocks_agree_over_a_round(change: dict[str, object], why: str) -> None:
    assert check_clocks(ORDER, TIMED) == pytest.approx(3900 * 5 / (6 * 3005))
    with pytest.raises(CardFailed, match=why):
        check_clocks(ORDER, TIMED.model_copy(update=change))


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("by_us", [100.0, 7000.0])
def test_a_sample_that_the_host_queued_late_tells_nothing_and_does_not_count(number: int, by_us: float) -> None:
    timed = late(number, by_us)
    assert check_clocks(ORDER, timed) == check_clocks(ORDER, TIMED)
    assert punctual(timed) == [index != number for index in range(6)]
