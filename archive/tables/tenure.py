"""The table of tenures: which coordinator runs which search."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Table, Text

from archive.tables.schema import metadata

# A row a search that was ever held; it stays, so that its fence never counts backwards.
tenures = Table(
    "tenures",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("holder", Text, nullable=False, index=True),
    Column("fence", BigInteger, nullable=False),
    Column("until_s", Double, nullable=False),
)
