"""Records of views are plain values."""

from datetime import UTC, datetime

from archive.records import Milestone, Relative


def test_kin_is_its_own_first_generation() -> None:
    kin = Relative("a", 0, "tune", (), "", None, {})
    assert kin.generation == 0


def test_milestones_are_compared_by_value() -> None:
    now = datetime.now(UTC)
    assert Milestone(1, 0, 0.0, None, None, now) == Milestone(1, 0, 0.0, None, None, now)
