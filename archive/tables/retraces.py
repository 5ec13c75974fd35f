"""The table of second traces."""

from sqlalchemy import Column, ForeignKey, Table, Text

from archive.column_types import JsonColumn, TimestampColumn
from archive.tables.schema import metadata

# One row per source that would have won a cell; it is removed with the candidate that it was first made for.
retraces = Table(
    "retraces",
    metadata,
    Column("trace_key", Text, primary_key=True),
    Column("candidate", Text, ForeignKey("candidates.id"), nullable=False, index=True),
    Column("bundles", JsonColumn(tuple), nullable=False),
    Column("created_at", TimestampColumn, nullable=False),
)
