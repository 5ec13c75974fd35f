"""Records of cells: what an elite and a cell's history keep of an offer."""

from dataclasses import fields

import pytest

from archive.records import EliteRecord, Offer, PlacementRecord


@pytest.mark.parametrize(
    "kept, dropped", [(EliteRecord, {"incumbent"}), (PlacementRecord, {"incumbent", "coordinates"})]
)
def test_what_was_offered_is_kept(kept: type, dropped: set[str]) -> None:
    assert {field.name for field in fields(Offer)} - dropped < {field.name for field in fields(kept)}
