"""Evaluation: jobs and their reports, verdicts, offers to cells, and checks of untrusted reports."""
