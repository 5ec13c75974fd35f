"""Allowed host names of requests: a defence against DNS rebinding.

A rebinding page changes its own name's address to the service's after a browser has loaded it. The browser then
treats requests to the service as the page's own site. The `Host` header still has the page's name; an address in it
cannot be rebound.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return True if an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address(host: str) -> bool:
    """Return True if a host is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class AllowedHosts:
    """Allowed hosts: this machine, configured names and, if other machines can reach the service, any address."""

    allowed: frozenset[str] = frozenset()
    addresses: bool = False

    def answers(self, header: str) -> bool:
        """Return True if a `Host` header is allowed; its port is ignored."""
        host = re.sub(r":\d+$", "", header).strip("[]").lower()
        return is_loopback(host) or host in self.allowed or (self.addresses and is_address(host))
