"""Tables of access: tokens, sessions, the audit log, and stored responses."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from archive.column_types import JsonColumn, TextColumn, TimestampColumn
from archive.tables.schema import metadata, sequence

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", TextColumn, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", JsonColumn(tuple), nullable=False),
    Column("created_by", Text),
    Column("created_at", TimestampColumn, nullable=False),
    Column("expires_at", TimestampColumn),
    Column("revoked_at", TimestampColumn),
    Column("last_used_at", TimestampColumn),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("token", Text, ForeignKey("tokens.id"), nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    Column("used_at", TimestampColumn, nullable=False),
    Column("expires_at", TimestampColumn, nullable=False, index=True),
)

# A trigger, created by the migration, refuses to change or delete a row.
audit = Table(
    "audit",
    metadata,
    sequence(),
    Column("at", TimestampColumn, nullable=False),
    Column("token", Text),
    Column("caller", TextColumn, nullable=False),
    Column("address", TextColumn, nullable=False),
    Column("action", TextColumn, nullable=False),
    Column("target", TextColumn, nullable=False),
    Column("status", Integer, nullable=False),
    Column("detail", TextColumn, nullable=False),
    Index(None, "token", "seq"),
)

idempotency_replies = Table(
    "idempotency_replies",
    metadata,
    Column("caller", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("created_at", TimestampColumn, nullable=False, index=True),
    Column("claimed_at", TimestampColumn, nullable=False),
    Column("status", Integer),
    Column("headers", JsonColumn(dict), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
