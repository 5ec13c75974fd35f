"""Records of remote workers: their states and counts, and their unverified traces."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RemoteWorkerState(StrEnum):
    """State of a remote worker."""

    ACTIVE = "active"
    DRAINING = "draining"
    """It finishes its job and then leaves."""
    LEFT = "left"
    """It was silent for so long that its credential was revoked, or it was drained and is gone."""
    SUSPENDED = "suspended"
    """Its reports differed too often from those of trusted workers, or it sent too many."""
    REVOKED = "revoked"
    """An admin excluded it for good."""

    @property
    def works(self) -> bool:
        """True if it may take jobs."""
        return self in (RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING)


@dataclass(frozen=True)
class NewRemoteWorker:
    """A worker that asks to join.

    Attributes:
        id: UUIDv7.
        name: Name that it gave itself, such as its machine's name; not unique.
        token: Id of the token that it joined with; None for the machine's own user.
        target: Target that it traces for; None if it does not trace.
        device: Name of the device that it judges on; None if it does not judge.
        versions: Versions of its packages, by name.
        cores: Number of its machine's cores that it may use.
        jail: Layers of its sandbox.
        protocol_version: Protocol version that both sides agreed on.
        password_digest: SHA-256 of its password at the queue, in hexadecimal.
        machine: SHA-256 of a secret that only the workers of its machine and user know; None if it sends none.
    """

    id: str
    name: str
    token: str | None
    target: str | None
    device: str | None
    versions: Mapping[str, str]
    cores: int
    jail: str
    protocol_version: int
    password_digest: str
    machine: str | None


@dataclass(frozen=True)
class RemoteWorker(NewRemoteWorker):
    """A stored remote worker.

    Attributes:
        state: State of the worker.
        reason: Reason of that state, if there is one to give.
        trusted: True if an admin trusts it.
        done: Number of its reports that counted.
        refused: Number of its reports that did not count: on jobs that it did not hold, or not about their job.
        checked: Number of its reports that were compared with those of trusted workers.
        disagreed: Number of these that differed.
        joined_at: Time of joining, UTC.
        seen_at: Time of its last stored heartbeat, UTC.
    """

    state: RemoteWorkerState
    reason: str
    trusted: bool
    done: int
    refused: int
    checked: int
    disagreed: int
    joined_at: datetime
    seen_at: datetime


@dataclass(frozen=True)
class RemoteWorkerCounts:
    """Increments of a remote worker's counts."""

    done: int = 0
    refused: int = 0
    checked: int = 0
    disagreed: int = 0


@dataclass(frozen=True)
class UnverifiedTrace:
    """A candidate that only an untrusted worker traced. Its variants win no cell before the trace is repeated."""

    candidate: str
    host: str
    created_at: datetime
