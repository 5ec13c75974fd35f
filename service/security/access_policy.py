"""How strictly a service asks who is calling: not at all, once there are tokens, or always."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from service.errors import InvalidInput
from service.security.allowed_hosts import AllowedHosts, is_address, is_loopback


class LoginPolicy(StrEnum):
    """Who needs a token."""

    NEVER = "never"
    """Nobody: the app runs inside a program of the machine's own user."""
    ONCE_THERE_ARE_TOKENS = "once there are tokens"
    """Nobody until the first token is made, everybody since: the service listens on loopback only."""
    ALWAYS = "always"
    """Everybody: others can reach the service."""


@dataclass(frozen=True)
class AccessPolicy:
    """What a service asks of those who come.

    Attributes:
        login: Who needs a token.
        hosts: The names it answers to.
        requests_per_s: How often a caller may ask on average; 0 for as often as he likes.
    """

    login: LoginPolicy = LoginPolicy.NEVER
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    requests_per_s: int = 0


def doors_for(host: str, allowed_hosts: Collection[str], requests_per_s: int) -> AccessPolicy:
    """The doors of a service that listens on an address.

    Names that are allowed say that requests come from elsewhere, through a proxy on this machine: then a login is
    needed on loopback too.

    Raises:
        InvalidInput: If the address is empty, which a server would take for all there are.
    """
    if not host:
        raise InvalidInput("say an address to listen on, such as 127.0.0.1", "host")
    names = frozenset(name.lower() for name in allowed_hosts)
    if is_loopback(host):
        login = LoginPolicy.ALWAYS if names else LoginPolicy.ONCE_THERE_ARE_TOKENS
        return AccessPolicy(login, AllowedHosts(names), requests_per_s)
    if not is_address(host):
        names |= {host.lower()}
    return AccessPolicy(LoginPolicy.ALWAYS, AllowedHosts(names, addresses=True), requests_per_s)
