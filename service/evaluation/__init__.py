"""What a report means: jobs and their reports, verdicts, offers, and whose word counts."""
