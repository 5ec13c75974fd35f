"""Who is calling, as far as routes need to know."""

from dataclasses import dataclass

from service.security.scopes import EVERY_SCOPE, Scope


@dataclass(frozen=True)
class Identity:
    """A caller that is known.

    Attributes:
        token: Id of the token that was shown, None for the machine's own user, who needs none.
        name: The token's name, for people.
        scopes: What the caller may do.
    """

    token: str | None
    name: str
    scopes: frozenset[Scope]


LOCAL = Identity(token=None, name="local", scopes=EVERY_SCOPE)
"""The machine's own user: whoever can reach a service that listens on loopback only and has no tokens."""
