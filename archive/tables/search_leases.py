"""Tables of leases on searches, and of the coordinators."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Table, Text

from archive.tables.schema import metadata

# One row per search that was ever held; it stays, so that its fence never decreases.
search_leases = Table(
    "search_leases",
    metadata,
    Column("search", Text, ForeignKey("searches.id"), primary_key=True),
    Column("holder", Text, nullable=False, index=True),
    Column("fence", BigInteger, nullable=False),
    Column("until_s", Double, nullable=False),
)

# One row per coordinator that runs, or died a moment ago.
coordinators = Table(
    "coordinators",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("until_s", Double, nullable=False, index=True),
)
