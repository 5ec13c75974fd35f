"""Names of revision 0017, frozen: the former name of each table and column, and the one that it gets."""

TABLES = {
    "arms": "llm_stats",
    "conclusions": "llm_outcomes",
    "doubts": "unverified_traces",
    "gates": "mutation_reports",
    "hosts": "remote_workers",
    "parentages": "candidate_parents",
    "purses": "llm_budgets",
    "replies": "idempotency_replies",
    "tenures": "search_leases",
    "vouches": "trusted_machines",
}
COLUMNS = {
    "counters": {"judged": "evaluated", "judging_ms": "device_ms"},
    "exchanges": {"holder": "claimed_by"},
    "searches": {"budget": "evaluations", "choosing": "selection"},
}
