"""Rate limits: a token bucket of requests per caller."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

MOST_CALLERS = 10_000
"""Maximum number of buckets, about 2 MB; beyond it the caller that was idle for longest loses its bucket."""
IPV6_HOST_BITS = 64
"""Host bits of an IPv6 address: one customer owns all their values, and could pose as many callers."""


class RateLimiter:
    """Limit of `per_s` requests per second and caller, with bursts of `burst`."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> int:
        """Count a request.

        Returns:
            0 if the request is allowed, else the seconds until the next one is.
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
    """Return the key of an unauthenticated caller: its IPv4 address, or the network of its IPv6 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(IPv6Address(int(parsed) >> IPV6_HOST_BITS << IPV6_HOST_BITS))
    return address
