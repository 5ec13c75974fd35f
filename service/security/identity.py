"""Identity of a caller, as far as routes need it."""

from dataclasses import dataclass

from service.security.scopes import EVERY_SCOPE, Scope, SearchGrant


@dataclass(frozen=True)
class Identity:
    """Authenticated caller.

    Attributes:
        token: Id of the caller's token; None for the machine's own user, who needs none.
        name: Name of the token, for people.
        scopes: Scopes that the token permits.
        grant: Restriction to one search; None if the token has none.
    """

    token: str | None
    name: str
    scopes: frozenset[Scope]
    grant: SearchGrant | None = None


LOCAL = Identity(token=None, name="local", scopes=EVERY_SCOPE)
"""Identity of the machine's own user: every caller of a service on loopback without tokens."""
