"""Scheduler: leases on searches, limits on candidates in flight, and ingestion of reports."""
