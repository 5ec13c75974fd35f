"""What is known of a second trace."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from archive.records import Retrace


def test_a_second_trace_is_not_changed_afterwards() -> None:
    retrace = Retrace("key", "candidate", ("bundle", None), datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(FrozenInstanceError):
        retrace.bundles = ()
    assert retrace.bundles == ("bundle", None)
