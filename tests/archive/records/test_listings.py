"""Filters are equal if their conditions are, and say nothing by default."""

from dataclasses import fields

from archive.records import CandidateFilter, Listed, SearchFilter


def test_a_filter_without_conditions_has_none() -> None:
    assert {getattr(SearchFilter(), field.name) for field in fields(SearchFilter)} == {None, ()}
    assert {getattr(CandidateFilter(), field.name) for field in fields(CandidateFilter)} == {None}


def test_pages_are_compared_by_their_items() -> None:
    assert Listed((1, 2), (2,)) == Listed((1, 2), (2,)) != Listed((1, 2), None)
