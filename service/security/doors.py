"""How strictly a service asks who is calling: not at all, once there are tokens, or always."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

from service.errors import BadInput
from service.security.hosts import Hosts, is_address, is_loopback


class Login(StrEnum):
    """Who needs a token."""

    NEVER = "never"
    """Nobody: the app runs inside a program of the machine's own user."""
    ONCE_THERE_ARE_TOKENS = "once there are tokens"
    """Nobody until the first token is made, everybody since: the service listens on loopback only."""
    ALWAYS = "always"
    """Everybody: others can reach the service."""


@dataclass(frozen=True)
class Doors:
    """What a service asks of those who come.

    Attributes:
        login: Who needs a token.
        hosts: The names it answers to.
        requests_per_s: How often a caller may ask on average; 0 for as often as he likes.
    """

    login: Login = Login.NEVER
    hosts: Hosts = field(default_factory=Hosts)
    requests_per_s: int = 0


def doors_for(host: str, allowed_hosts: Collection[str], requests_per_s: int) -> Doors:
    """The doors of a service that listens on an address.

    Names that are allowed say that requests come from elsewhere, through a proxy on this machine: then a login is
    needed on loopback too.

    Raises:
        BadInput: If the address is empty, which a server would take for all there are.
    """
    if not host:
        raise BadInput("say an address to listen on, such as 127.0.0.1", "host")
    names = frozenset(name.lower() for name in allowed_hosts)
    if is_loopback(host):
        login = Login.ALWAYS if names else Login.ONCE_THERE_ARE_TOKENS
        return Doors(login, Hosts(names), requests_per_s)
    if not is_address(host):
        names |= {host.lower()}
    return Doors(Login.ALWAYS, Hosts(names, addresses=True), requests_per_s)
