"""The tables, private to the archive: one file per subject, and one line here per table.

Columns are named like the fields of the records. Every frequent query has an index, and every count has a counter: no
query's cost grows with the number of candidates.
"""

from archive.tables.access import audit, idempotency_replies, sessions, tokens
from archive.tables.guidance import hints, mutation_reports, pins
from archive.tables.milestones import milestones
from archive.tables.prompts import RESERVED, charges, exchanges, llm_budgets, llm_outcomes, llm_stats
from archive.tables.remote_workers import remote_workers, trusted_machines, unverified_traces
from archive.tables.retraces import retraces
from archive.tables.schema import metadata
from archive.tables.search_leases import coordinators, search_leases
from archive.tables.searches import (
    RANKED,
    UNFINISHED,
    bundles,
    candidate_parents,
    candidates,
    counters,
    elites,
    operators,
    placements,
    provisional_holders,
    reports,
    search_tags,
    searches,
    tallies,
    variants,
)

__all__ = [
    "RANKED",
    "RESERVED",
    "UNFINISHED",
    "audit",
    "bundles",
    "candidate_parents",
    "candidates",
    "charges",
    "coordinators",
    "counters",
    "elites",
    "exchanges",
    "hints",
    "idempotency_replies",
    "llm_budgets",
    "llm_outcomes",
    "llm_stats",
    "metadata",
    "milestones",
    "mutation_reports",
    "operators",
    "pins",
    "placements",
    "provisional_holders",
    "remote_workers",
    "reports",
    "retraces",
    "search_leases",
    "search_tags",
    "searches",
    "sessions",
    "tallies",
    "tokens",
    "trusted_machines",
    "unverified_traces",
    "variants",
]
