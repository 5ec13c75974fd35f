"""Tables of guidance: pins and hints of people, and mutation reports of operators."""

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from archive.column_types import TextColumn, TimestampColumn
from archive.tables.schema import metadata

pins = Table(
    "pins",
    metadata,
    Column("id", Text, primary_key=True),
    Column("search", Text, ForeignKey("searches.id"), nullable=False),
    Column("device", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("cell", Integer),
    Column("candidate", Text, ForeignKey("candidates.id")),
    Column("author", TextColumn, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    UniqueConstraint("search", "device", "subject"),
    Index(None, "search", "id"),
)

hints = Table(
    "hints",
    metadata,
    Column("id", Text, primary_key=True),
    Column("search", Text, ForeignKey("searches.id"), nullable=False),
    Column("text", TextColumn, nullable=False),
    Column("author", TextColumn, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
    Index(None, "search", "id"),
)

# The last mutation report of an operator, by the operator's digest.
mutation_reports = Table(
    "mutation_reports",
    metadata,
    Column("operator", Text, ForeignKey("operators.digest"), primary_key=True),
    Column("verdict", Text, nullable=False),
    Column("document", TextColumn, nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
)
