"""Documents of workers and of joining, without the web framework."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from archive.records import RemoteWorker
from kernelreef.models import Resource
from service.fleet.remote_workers import JoinApplication
from workers.protocol import PROTOCOL_VERSION, Device
from workers.queue import WorkerStatus
from workers.targets import TARGETS

Word = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Worker(Resource):
    """One worker. Fields that only remote workers have are null for the others.

    The others hold the service's own credential and are trusted. `seen` is a time by the worker's clock, `seen_at` by
    ours.
    """

    id: str
    target: str | None
    device: str | None
    kinds: tuple[str, ...]
    versions: Mapping[str, str]
    jail: str
    busy: str | None = None
    seen: datetime
    trusted: bool = True
    unverified: bool = Field(default=False, description="True if no controls have passed on this class of card yet.")
    name: str | None = None
    state: str | None = None
    reason: str | None = None
    token: str | None = None
    protocol_version: int | None = None
    cores: int | None = None
    done: int | None = None
    refused: int | None = None
    checked: int | None = None
    disagreed: int | None = None
    joined_at: datetime | None = None
    seen_at: datetime | None = None

    @classmethod
    def of(
        cls, status: WorkerStatus | None, host: RemoteWorker | None, unverified: Collection[str] = frozenset()
    ) -> Self:
        """Combine the last heartbeat and the archive's record; at least one of them is given.

        Args:
            status: Last heartbeat.
            host: Record of a remote worker.
            unverified: Hardware classes on which no controls have passed yet.
        """
        if host is None:
            shown = cls.model_validate(status)
            return shown.model_copy(update={"unverified": shown.device in unverified})
        kinds = (*(("measure",) if host.device else ()), *(("trace",) if host.target else ()))
        known = {name: value for name, value in vars(host).items() if name in cls.model_fields}
        known |= {"kinds": (*(("confirm",) if host.trusted and host.device else ()), *kinds), "state": host.state.value}
        living = status or WorkerStatus(id=host.id, seen=host.seen_at)
        known |= {"busy": living.busy, "seen": living.seen, "jail": living.jail or host.jail}
        known |= {"versions": {**host.versions, **living.versions}, "unverified": host.device in unverified}
        return cls(**known)


class JoinRequest(BaseModel):
    """A worker's request to join: protocol versions, identity and capabilities."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "name": "rig-3",
                    "protocol_versions": [PROTOCOL_VERSION],
                    "target": "sm_90",
                    "device": None,
                    "versions": {"triton": "3.7.1"},
                }
            ]
        },
    )

    name: Word
    protocol_versions: Annotated[Sequence[int], Field(min_length=1, max_length=16)]
    target: str | None = None
    device: str | None = None
    versions: Annotated[Mapping[Word, Word], Field(max_length=64)] = {}
    cores: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    jail: Annotated[str, StringConstraints(max_length=256)] = ""
    machine: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{32,128}$")] | None = Field(
        default=None,
        description="Secret of one machine; by it, its workers stay trusted after a restart.",
    )

    @field_validator("target")
    @classmethod
    def _is_target(cls, name: str | None) -> str | None:
        if name is not None and name not in TARGETS:
            raise ValueError(f"there is no target '{name}'; known: {', '.join(TARGETS)}")
        return name

    @field_validator("device")
    @classmethod
    def _is_device(cls, name: str | None) -> str | None:
        return None if name is None else Device.parse(name).name

    def application(self) -> JoinApplication:
        """Convert the request for the service."""
        return JoinApplication(**{**dict(self), "versions": dict(self.versions)})


class JoinResponse(Resource):
    """Response to a joining worker: its id, and its own user of the queue. No other response contains the password.

    `ca` are the CA certificates of the queue, PEM; null if the system's are enough.
    """

    worker: str
    protocol_version: int
    redis_url: str
    password: str
    ca: str | None


class RemoteWorkerStatus(Resource):
    """State of a remote worker: `active`, `draining`, `left`, `suspended` or `revoked`, with a reason if known."""

    worker: str
    state: str
    reason: str = ""


class TrustRequest(BaseModel):
    """A request to trust a worker, or to stop trusting it."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [{"trusted": True}]})

    trusted: bool = True


class RevokeRequest(BaseModel):
    """A request to revoke a worker, with the reason for the record."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"reason": "its card was sold"}]}
    )

    reason: Annotated[str, StringConstraints(max_length=500)] = ""
