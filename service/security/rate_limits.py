"""How often a caller may ask: a bucket of requests each, refilled all the time."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

MOST_CALLERS = 10_000
"""Callers whose buckets are kept, about 2 MB; beyond them the one not seen for longest begins anew."""
IPV6_HOST_BITS = 64
"""Of an IPv6 address: one customer has all of them, and would be a new caller with each."""


class RateLimiter:
    """A limit of `per_s` requests a second for every caller, with `burst` at once."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> int:
        """Count a request.

        Returns:
            0 if it may go on, else after how many seconds the next one may.
        """
        at = self._clock()
        left, since = self._buckets.pop(caller, (float(self._burst), at))
        left = min(float(self._burst), left + (at - since) * self._per_s)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, at)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - left) / self._per_s))


def network_of(address: str) -> str:
    """What a stranger is counted by: an IPv4 address, or the network that an IPv6 address is in."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(IPv6Address(int(parsed) >> IPV6_HOST_BITS << IPV6_HOST_BITS))
    return address
