"""A worker's status crosses the queue as it was said."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from workers.queue import WorkerStatus


def test_a_status_is_read_back_as_it_was_said() -> None:
    said = WorkerStatus(
        id="w", target="sm_90", kinds=("trace",), jail="pid", busy="job-1", seen=datetime(2026, 1, 2, tzinfo=UTC)
    )
    assert WorkerStatus.model_validate_json(said.model_dump_json()) == said


def test_a_status_without_a_time_is_none() -> None:
    with pytest.raises(ValidationError, match="seen"):
        WorkerStatus.model_validate_json('{"id": "w"}')
