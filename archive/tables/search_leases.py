"""The tables of tenures: which coordinator runs which search, and which coordinators there are."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Table, Text

from archive.tables.schema import metadata

# A row a search that was ever held; it stays, so that its fence never counts backwards.
search_leases = Table(
    "search_leases",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("holder", Text, nullable=False, index=True),
    Column("fence", BigInteger, nullable=False),
    Column("until_s", Double, nullable=False),
)

# A row a coordinator that lives, or died a moment ago.
coordinators = Table(
    "coordinators",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("until_s", Double, nullable=False, index=True),
)
