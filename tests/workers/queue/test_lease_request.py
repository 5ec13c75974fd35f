"""An ask crosses the queue as it was said."""

import pytest
from pydantic import ValidationError

from workers.protocol import REASON_CHARS
from workers.queue import LeaseRequest
from workers.queue.lease_request import ASK_BYTES


def test_an_ask_is_read_back_as_it_was_said() -> None:
    said = LeaseRequest(number=7, wants=False, done="job-1", returned="job-2", mishap="no memory")
    assert LeaseRequest.model_validate_json(said.model_dump_json()) == said
    with pytest.raises(ValidationError, match="number"):
        LeaseRequest.model_validate_json("{}")


def test_the_longest_ask_of_ours_is_read_whole() -> None:
    long = LeaseRequest(number=2**53, done="x" * 300, returned="x" * 300, mishap="x" * REASON_CHARS)
    assert len(long.model_dump_json()) < ASK_BYTES
