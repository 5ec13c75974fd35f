"""The tables, private to the archive: one file a subject, a line here for each table.

Columns are named like the fields of the records that leave the room. Whatever is asked often has an index that answers
it, and whatever is counted has a counter: no query's cost grows with the number of candidates.
"""

from archive.tables.schema import metadata
from archive.tables.searching import (
    UNFINISHED,
    bundles,
    candidates,
    counters,
    elites,
    operators,
    placements,
    reports,
    searches,
    tallies,
    variants,
)

__all__ = [
    "UNFINISHED",
    "bundles",
    "candidates",
    "counters",
    "elites",
    "metadata",
    "operators",
    "placements",
    "reports",
    "searches",
    "tallies",
    "variants",
]
