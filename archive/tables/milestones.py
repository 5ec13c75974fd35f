"""Table of milestones: the progress of searches over their evaluations."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, Table, Text

from archive.column_types import DollarColumn, TimestampColumn
from archive.tables.schema import metadata

milestones = Table(
    "milestones",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("device", Text, primary_key=True),
    Column("evaluations", BigInteger, primary_key=True, autoincrement=False),
    Column("elites", Integer, nullable=False),
    Column("qd_score", Double, nullable=False),
    Column("best", Double),
    Column("usd", DollarColumn),
    Column("reached_at", TimestampColumn, nullable=False),
)
