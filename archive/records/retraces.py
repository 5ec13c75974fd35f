"""Second traces: results of trusted workers that repeated a trace."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Retrace:
    """Result of a second trace of a source, in a fresh sandbox.

    Attributes:
        trace_key: Key of all traces whose results must be equal.
        candidate: Id of the candidate whose trace was repeated.
        bundles: Identities of the bundles by index of the variant; None for a variant without one.
        created_at: UTC.
    """

    trace_key: str
    candidate: str
    bundles: tuple[str | None, ...]
    created_at: datetime
