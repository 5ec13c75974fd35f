"""The status that a worker reports."""

from datetime import datetime

from workers.protocol import WireModel, release_of


class WorkerStatus(WireModel):
    """Latest status of a live worker.

    Attributes:
        id: Unique among workers.
        target: Compile target that it traces for, such as `sm_90`; None if it does not trace.
        device: Name of the device that it measures on; None if it measures nothing.
        kinds: Kinds of jobs it takes, the preferred first.
        versions: Versions of everything that influences a figure, by name.
        jail: Isolation layers of its sandbox.
        busy: Id of the job that it works on; None while it is idle.
        seen: Time of this status, UTC, by its own clock.
    """

    id: str
    target: str | None = None
    device: str | None = None
    kinds: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    jail: str = ""
    busy: str | None = None
    seen: datetime

    @property
    def compiler(self) -> str | None:
        """Release of its Triton; None while it is unknown."""
        return release_of(self.versions.get("triton", "")) or None
