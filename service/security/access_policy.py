"""Access policy of a service: login never required, required once a token exists, or always."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from service.errors import InvalidInput
from service.security.allowed_hosts import AllowedHosts, is_address, is_loopback


class LoginPolicy(StrEnum):
    """Condition under which callers need a token."""

    NEVER = "never"
    """No caller needs one: the app runs inside a program of the machine's own user."""
    ONCE_THERE_ARE_TOKENS = "once there are tokens"
    """Callers need one as soon as the first token exists: the service listens on loopback only."""
    ALWAYS = "always"
    """All callers need one: other machines can reach the service."""


@dataclass(frozen=True)
class AccessPolicy:
    """Rules for requests from outside.

    Attributes:
        login: Condition under which callers need a token.
        hosts: Allowed host names.
        requests_per_s: Maximum requests per second and caller, on average; 0 for no limit.
    """

    login: LoginPolicy = LoginPolicy.NEVER
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    requests_per_s: int = 0


def doors_for(host: str, allowed_hosts: Collection[str], requests_per_s: int) -> AccessPolicy:
    """Return the access policy of a service that listens on an address.

    Allowed names mean that requests come through a proxy on this machine, so loopback requires a login too.

    Raises:
        InvalidInput: If the address is empty, which a server would take as all addresses.
    """
    if not host:
        raise InvalidInput("give an address to listen on, such as 127.0.0.1", "host")
    names = frozenset(name.lower() for name in allowed_hosts)
    if is_loopback(host):
        login = LoginPolicy.ALWAYS if names else LoginPolicy.ONCE_THERE_ARE_TOKENS
        return AccessPolicy(login, AllowedHosts(names), requests_per_s)
    if not is_address(host):
        names |= {host.lower()}
    return AccessPolicy(LoginPolicy.ALWAYS, AllowedHosts(names, addresses=True), requests_per_s)
