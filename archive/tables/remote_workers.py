"""Tables of remote workers, trusted machines, and unverified traces."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, Table, Text

from archive.column_types import EnumColumn, JsonColumn, TextColumn, TimestampColumn
from archive.records import RemoteWorkerState
from archive.tables.schema import metadata

remote_workers = Table(
    "remote_workers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", TextColumn, nullable=False),
    Column("token", Text),
    Column("target", Text),
    Column("device", Text),
    Column("versions", JsonColumn(dict), nullable=False),
    Column("cores", Integer, nullable=False),
    Column("jail", TextColumn, nullable=False),
    Column("protocol_version", Integer, nullable=False),
    Column("password_digest", Text, nullable=False),
    Column("state", EnumColumn(RemoteWorkerState), nullable=False),
    Column("reason", TextColumn, nullable=False),
    Column("trusted", Boolean, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("checked", BigInteger, nullable=False),
    Column("disagreed", BigInteger, nullable=False),
    Column("joined_at", TimestampColumn, nullable=False),
    Column("seen_at", TimestampColumn, nullable=False),
    Column("machine", Text),
    Index(None, "state", "id"),
    Index(None, "machine", "state"),
)

trusted_machines = Table(
    "trusted_machines",
    metadata,
    Column("machine", Text, primary_key=True),
    Column("created_at", TimestampColumn, nullable=False),
)

unverified_traces = Table(
    "unverified_traces",
    metadata,
    Column("candidate", Text, ForeignKey("candidates.id"), primary_key=True),
    Column("host", Text, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
)
