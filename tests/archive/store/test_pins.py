"""Pins: one a subject, so many a search, and taken away again."""

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import NewPin
from archive.store import Store
from tests.archive.samples import DEVICE, stored_candidate, stored_search, unique_id


def pin(search: str, cell: int | None = None, candidate: str | None = None, device: str = DEVICE) -> NewPin:
    return NewPin(unique_id(), search, device, cell, candidate, "ada")


async def test_pins_of_a_search_by_device(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    first = await store.pins.put(pin(search, 3), most=9)
    second = await store.pins.put(pin(search, candidate=candidate), most=9)
    other = await store.pins.put(pin(search, 3, device="h200"), most=9)
    assert await store.pins.list(search) == [first, second, other]
    assert await store.pins.list(search, DEVICE) == [first, second]
    assert (first.cell, first.candidate, second.cell, second.candidate) == (3, None, None, candidate)
    assert first.author == "ada" and first.created_at.tzinfo is not None


async def test_what_is_pinned_keeps_its_pin(store: Store) -> None:
    search = (await stored_search(store)).id
    first = await store.pins.put(pin(search, 3), most=1)
    assert await store.pins.put(pin(search, 3), most=1) == first
    with pytest.raises(RecordConflict, match="may have 1 pins"):
        await store.pins.put(pin(search, 4), most=1)


async def test_a_pin_is_taken_away_once(store: Store) -> None:
    search, other = (await stored_search(store)).id, (await stored_search(store)).id
    kept = await store.pins.put(pin(search, 3), most=9)
    with pytest.raises(RecordNotFound):
        await store.pins.remove(other, kept.id)
    await store.pins.remove(search, kept.id)
    assert await store.pins.list(search) == []
    with pytest.raises(RecordNotFound):
        await store.pins.remove(search, kept.id)


async def test_what_is_unknown_cannot_be_pinned(store: Store) -> None:
    search = (await stored_search(store)).id
    with pytest.raises(RecordConflict):
        await store.pins.put(pin("nothing", 3), most=9)
    with pytest.raises(RecordConflict):
        await store.pins.put(pin(search, candidate="nothing"), most=9)
