"""Table of milestones: how searches got where they are."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, Table, Text

from archive.columns import Dollars, Moment
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
    Column("usd", Dollars),
    Column("reached_at", Moment, nullable=False),
)
