"""A search has one tenure, whoever holds it."""

from archive.tables import coordinators, tenures


def test_a_search_is_held_once() -> None:
    assert [column.name for column in tenures.primary_key] == ["search"]
    assert {key.target_fullname for key in tenures.foreign_keys} == {"searches.id"}


def test_a_coordinator_is_counted_once() -> None:
    assert [column.name for column in coordinators.primary_key] == ["holder"]
