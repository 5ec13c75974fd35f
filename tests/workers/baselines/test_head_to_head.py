"""What a contest decides about samples; the timing itself is tried on a card, in tests/gpu."""

import pytest

from workers.baselines.head_to_head import STEADY, WARM_ROUNDS, calls_for, is_steady


@pytest.mark.parametrize(
    ("single_us", "sets", "calls"), [(900.0, 8, 1), (200.0, 8, 1), (19.0, 32, 11), (19.0, 8, 8), (0.5, 64, 64)]
)
def test_a_sample_has_as_many_calls_as_make_it_long_but_uses_no_set_twice(single_us, sets, calls):
    assert calls_for(single_us, sets) == calls


def test_rounds_are_steady_once_the_latest_agree():
    falling = [0.1 * step for step in range(10, 0, -1)]
    level = [STEADY / 10 * (step % 2) for step in range(WARM_ROUNDS)]
    assert not is_steady(level[:-1])
    assert not is_steady(falling)
    assert not is_steady(falling + level[:-1])
    assert is_steady(falling + level)
