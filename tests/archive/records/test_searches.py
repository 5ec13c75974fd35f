"""Records never change under whoever holds them."""

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from archive import records
from archive.records import NewCandidate, NewSearch, SearchCounts, SearchRecord

KINDS = [kind for kind in vars(records).values() if isinstance(kind, type) and is_dataclass(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_is_frozen(kind: type) -> None:
    record = object.__new__(kind)
    with pytest.raises(FrozenInstanceError):
        setattr(record, fields(kind)[0].name, None)


@pytest.mark.parametrize("new, whole", [(NewSearch, SearchRecord), (NewCandidate, records.CandidateRecord)])
def test_what_is_new_is_part_of_what_is_stored(new: type, whole: type) -> None:
    assert {field.name for field in fields(new)} < {field.name for field in fields(whole)}


def test_in_flight_is_what_is_not_judged() -> None:
    assert SearchCounts(proposals=9, candidates=7, evaluated=5, device_ms=0).in_flight == 2
