"""Jails find Inductor imported, as those of a process that drafts do."""

import pytest

from workers.trace_job.warmup import warm_drafts


@pytest.fixture(autouse=True, scope="session")
def warm() -> None:
    warm_drafts()
