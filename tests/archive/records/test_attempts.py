"""What is kept of attempts is what is kept of candidates and placements."""

from dataclasses import fields

from archive.records import Attempt, CandidateRecord, OfferOutcome, PlacementRecord


def test_attempts_are_named_as_candidates_are() -> None:
    assert {field.name for field in fields(Attempt)} < {field.name for field in fields(CandidateRecord)}


def test_landings_say_where_and_what_was_gained() -> None:
    computed = {"gain", "filled"}
    assert {field.name for field in fields(OfferOutcome)} - computed < {field.name for field in fields(PlacementRecord)}
    assert OfferOutcome("c", "model:sm_90", 3, None) != OfferOutcome("c", "model:sm_90", 3, 0.5)
