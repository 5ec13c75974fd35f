"""What is said of who runs a search."""

from dataclasses import fields

from archive.records import SearchFingerprint, SearchLease, SearchRecord


def test_a_mark_names_a_search_as_the_search_does() -> None:
    assert {field.name for field in fields(SearchFingerprint)} - {"in_flight"} < {
        field.name for field in fields(SearchRecord)
    }


def test_a_tenure_tells_its_holder_from_the_one_before() -> None:
    first = SearchLease(search="s", holder="a", fence=1, until_s=5.0)
    assert first != SearchLease(search="s", holder="a", fence=3, until_s=5.0)
