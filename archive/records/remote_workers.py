"""Hosts: workers that joined with a token, and traces that nobody trusted has repeated."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RemoteWorkerState(StrEnum):
    """State of a remote worker."""

    ACTIVE = "active"
    DRAINING = "draining"
    """It finishes its job, takes no more and leaves."""
    LEFT = "left"
    """It said nothing for so long that its credential was taken back, or it was drained and is gone."""
    SUSPENDED = "suspended"
    """Its answers differed too often from those of trusted workers, or it flooded us."""
    REVOKED = "revoked"
    """An admin shut it out, for good."""

    @property
    def works(self) -> bool:
        """True if it may do jobs."""
        return self in (RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING)


@dataclass(frozen=True)
class NewRemoteWorker:
    """A worker that asks to join.

    Attributes:
        id: UUIDv7.
        name: What it calls itself, such as its machine's name; not unique.
        token: Id of the token that it joined with, None for the machine's own user.
        target: What it traces for, None if it does not trace.
        device: Name of what it judges on, None if it judges nothing.
        versions: Of its packages, by name.
        cores: Of its machine that it may use.
        jail: What its jail provides.
        protocol_version: The one agreed on.
        password_digest: SHA-256 of its password at the queue, in hexadecimal.
        machine: SHA-256 of what all workers of its machine and user know and nobody else; None if it does not say.
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
    """A host as the archive knows it.

    Attributes:
        state: How it stands.
        reason: Why, where that needs saying.
        trusted: Whether an admin vouches for it.
        done: Reports of it that counted.
        refused: Reports of it that did not: on jobs that it did not hold, or that answered something else.
        checked: Answers of it that were compared with those of trusted workers.
        disagreed: How many of these differed.
        joined_at: When it joined.
        seen_at: Its last sign of life that was written down, UTC.
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
    """A candidate whose trace is an untrusted host's word; its variants win no cell before the trace is repeated."""

    candidate: str
    host: str
    created_at: datetime
