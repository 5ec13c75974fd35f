"""The status that a worker reports."""

from datetime import datetime

from workers.protocol import WireModel


class WorkerStatus(WireModel):
    """One living worker, as its last sign of life said.

    Attributes:
        id: Unique among workers.
        target: What it traces for, such as `sm_90`; None if it does not trace.
        device: Name of what it measures on; None if it measures nothing.
        kinds: Kinds of jobs it takes, the preferred first.
        versions: Of everything that influences a figure, by name.
        jail: What its jail can provide.
        busy: The job it works on, None while it waits.
        seen: When it said so, UTC, by its own clock.
    """

    id: str
    target: str | None = None
    device: str | None = None
    kinds: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    jail: str = ""
    busy: str | None = None
    seen: datetime
