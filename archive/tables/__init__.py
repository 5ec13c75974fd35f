"""The tables, private to the archive: one file a subject, a line here for each table.

Columns are named like the fields of the records that leave the room. Whatever is asked often has an index that answers
it, and whatever is counted has a counter: no query's cost grows with the number of candidates.
"""

from archive.tables.access import audit, replies, sessions, tokens
from archive.tables.guidance import gates, hints, pins
from archive.tables.milestones import milestones
from archive.tables.prompts import RESERVED, arms, charges, conclusions, exchanges, purses
from archive.tables.remote_workers import doubts, hosts, vouches
from archive.tables.retraces import retraces
from archive.tables.schema import metadata
from archive.tables.search_leases import coordinators, tenures
from archive.tables.searches import (
    UNFINISHED,
    bundles,
    candidates,
    counters,
    elites,
    operators,
    parentages,
    placements,
    reports,
    searches,
    tallies,
    variants,
)

__all__ = [
    "RESERVED",
    "UNFINISHED",
    "arms",
    "audit",
    "bundles",
    "candidates",
    "charges",
    "conclusions",
    "coordinators",
    "counters",
    "doubts",
    "elites",
    "exchanges",
    "gates",
    "hints",
    "hosts",
    "metadata",
    "milestones",
    "operators",
    "parentages",
    "pins",
    "placements",
    "purses",
    "replies",
    "reports",
    "retraces",
    "searches",
    "sessions",
    "tallies",
    "tenures",
    "tokens",
    "variants",
    "vouches",
]
