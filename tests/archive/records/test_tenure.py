"""What is said of who runs a search."""

from dataclasses import fields

from archive.records import Search, SearchMark, Tenure


def test_a_mark_names_a_search_as_the_search_does() -> None:
    assert {field.name for field in fields(SearchMark)} - {"in_flight"} < {field.name for field in fields(Search)}


def test_a_tenure_tells_its_holder_from_the_one_before() -> None:
    first = Tenure(search="s", holder="a", fence=1, until_s=5.0)
    assert first != Tenure(search="s", holder="a", fence=3, until_s=5.0)
