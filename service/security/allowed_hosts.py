"""Which names a service answers to, so that no web page reaches it under a name of its own.

Such a page points its name at our address once a visitor's browser has loaded it, and what it then asks for looks
like a request of its own site. The name in the request gives it away; an address cannot be made to lead elsewhere.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address(host: str) -> bool:
    """Whether a host is an address, and no name that somebody else could give."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class AllowedHosts:
    """The hosts that requests may name: this machine, those allowed and, where others can reach us, any address."""

    allowed: frozenset[str] = frozenset()
    addresses: bool = False

    def answers(self, header: str) -> bool:
        """Whether a `Host` header is one of ours; a port in it does not matter."""
        host = re.sub(r":\d+$", "", header).strip("[]").lower()
        return is_loopback(host) or host in self.allowed or (self.addresses and is_address(host))
