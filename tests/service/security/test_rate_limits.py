"""A caller may ask so often; another one is not held up by it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.security import rate_limits
from service.security.rate_limits import RateLimiter, network_of


class Clock:
    """A time that is moved by hand."""

    at = 100.0

    def __call__(self) -> float:
        return self.at


def test_a_burst_passes_and_then_the_rate_counts() -> None:
    clock = Clock()
    limit = RateLimiter(per_s=2, burst=3, clock=clock)
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 1]
    clock.at += 0.5
    assert [limit.take("a") for _ in range(2)] == [0, 1]
    clock.at += 60
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 1]


def test_callers_do_not_hold_each_other_up() -> None:
    limit = RateLimiter(per_s=1, burst=1, clock=Clock())
    assert [limit.take("a"), limit.take("a"), limit.take("b")] == [0, 1, 0]


@given(per_s=st.floats(0.01, 100), burst=st.integers(1, 20))
def test_whoever_waits_as_told_is_let_in(per_s: float, burst: int) -> None:
    clock = Clock()
    limit = RateLimiter(per_s, burst, clock)
    while not (wait_s := limit.take("a")):
        pass
    clock.at += wait_s + 1e-6
    assert limit.take("a") == 0


def test_buckets_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "MOST_CALLERS", 3)
    limit = RateLimiter(per_s=0.1, burst=1, clock=Clock())
    assert [limit.take(caller) for caller in "abca"] == [0, 0, 0, 10]
    assert limit.take("d") == 0
    assert limit.take("b") == 0, "the one not seen for longest begins anew"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
        ("::1", "::"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_strangers_are_counted_by_network(address: str, network: str) -> None:
    assert network_of(address) == network
