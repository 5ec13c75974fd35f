"""Trust: the guarantees of a host that judged, and the letter that follows from them."""

from workers.protocol.base import WireModel
from workers.protocol.outcome import Trust

FULL_JAIL = ("user", "mount", "pid", "net", "ipc", "readonly", "tmpfs", "dev", "proc", "seccomp")
"""Layers of a full sandbox, as `workers.sandbox` names them. The layer `nobody` is only for hosts that run as root."""


class TrustGrounds(WireModel):
    """The grounds of a verdict, as far as its host could provide them. A host does not claim what it does not know.

    Attributes:
        jail: Layers of the sandbox that plans were assembled in, and on `model` devices executed, such as `user+mount`.
        replayed: Only plans were executed: no host code of a candidate ran during timing.
        measured: A card ran them. The remaining grounds need a card.
        exclusive: No other process used the card.
        agreed: Independent measurements of times agreed: clocks and controls.
        sanitised: A memory sanitiser found nothing.
        seconded: Another card gave the same result.
        vouched: An admin trusts the host, or it is the service's own.
    """

    jail: str
    replayed: bool
    measured: bool
    exclusive: bool = False
    agreed: bool = False
    sanitised: bool = False
    seconded: bool = False
    vouched: bool = True


def label(grounds: TrustGrounds) -> tuple[Trust, tuple[str, ...]]:
    """Return the letter, and the reasons why it is not better, the weightiest first.

    D: something other than plans was executed, or there was no sandbox. C: an untrusted host. B: a trusted host, with a
        ground of A missing, such as the card. A: nothing is missing.
    """
    layers = grounds.jail.split("+") if grounds.jail else []
    lacking = [layer for layer in FULL_JAIL if layer not in layers]
    claims = [
        (Trust.D, grounds.replayed, "something else than launch plans was executed"),
        (Trust.D, bool(layers), "there was no jail"),
        (Trust.C, grounds.vouched, "nobody vouches for the host"),
        (Trust.B, not lacking, f"the jail lacked {', '.join(lacking)}"),
        (Trust.B, grounds.measured, "no card has run it"),
    ]
    on_card = [
        (Trust.B, grounds.exclusive, "nothing says that nobody else used the card"),
        (Trust.B, grounds.agreed, "no second clock and no planted control was held against the times"),
        (Trust.B, grounds.sanitised, "no memory sanitiser has looked at it"),
        (Trust.B, grounds.seconded, "no second card has found the same"),
    ]
    missing = [(letter, said) for letter, holds, said in claims + on_card * grounds.measured if not holds]
    return max((letter for letter, _ in missing), default=Trust.A), tuple(said for _, said in missing)
