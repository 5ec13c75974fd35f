"""Second traces: what a trusted worker found when it repeated one."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Retrace:
    """Result of a second trace of a source, in a fresh sandbox.

    Attributes:
        trace_key: What all traces share whose results must be equal.
        candidate: Whose trace was repeated.
        bundles: By index of the variant, its bundle's identity; None where that variant was stopped.
        created_at: UTC.
    """

    trace_key: str
    candidate: str
    bundles: tuple[str | None, ...]
    created_at: datetime
