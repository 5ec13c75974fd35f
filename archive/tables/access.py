"""Tables of who may come in, who is there, what was done, and what was answered."""

from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from archive.columns import Json, Moment, Prose
from archive.tables.schema import metadata, sequence

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Prose, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", Json(tuple), nullable=False),
    Column("created_by", Text),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("token", Text, ForeignKey("tokens.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("used_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False, index=True),
)

# A trigger, laid down by the migration, refuses to change or delete a row.
audit = Table(
    "audit",
    metadata,
    sequence(),
    Column("at", Moment, nullable=False),
    Column("token", Text),
    Column("caller", Prose, nullable=False),
    Column("address", Prose, nullable=False),
    Column("action", Prose, nullable=False),
    Column("target", Prose, nullable=False),
    Column("status", Integer, nullable=False),
    Column("detail", Prose, nullable=False),
    Index(None, "token", "seq"),
)

replies = Table(
    "replies",
    metadata,
    Column("caller", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("created_at", Moment, nullable=False, index=True),
    Column("claimed_at", Moment, nullable=False),
    Column("status", Integer),
    Column("headers", Json(dict), nullable=False),
    Column("body", LargeBinary, nullable=False),
)
