"""A search has one tenure, whoever holds it."""

from archive.tables import coordinators, search_leases


def test_a_search_is_held_once() -> None:
    assert [column.name for column in search_leases.primary_key] == ["search"]
    assert {key.target_fullname for key in search_leases.foreign_keys} == {"searches.id"}


def test_a_coordinator_is_counted_once() -> None:
    assert [column.name for column in coordinators.primary_key] == ["holder"]
