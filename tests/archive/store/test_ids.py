"""A short id means the one record that it fits; several are refused by name."""

import pytest
from uuid6 import uuid7

from archive.errors import AmbiguousId, RecordNotFound
from archive.store import Store
from archive.store.ids import COLUMNS, ID_LENGTH, NAMED, Kind
from tests.archive.samples import OPERATOR, new_candidate, new_search, stored_search


async def test_a_short_id_means_the_one_record_that_it_fits(store: Store) -> None:
    search = await stored_search(store, id=str(uuid7()))
    candidate = await store.candidates.add(new_candidate(search.id, id=str(uuid7())))
    for length in (6, 8, 13, ID_LENGTH):
        assert await store.ids.whole("search", search.id[-length:]) == search.id
        assert await store.ids.whole("candidate", candidate.id[-length:]) == candidate.id
    with pytest.raises(RecordNotFound, match=f"there is no prompt {search.id[-6:]}"):
        await store.ids.whole("prompt", search.id[-6:])


async def test_a_short_id_of_several_is_refused_and_names_them(store: Store) -> None:
    same = sorted(f"{str(uuid7())[:-6]}abcdef" for _ in range(NAMED + 2))
    await stored_search(store, id=same[0])
    await store.searches.create(new_search(id=same[1]))
    with pytest.raises(AmbiguousId) as caught:
        await store.ids.whole("search", "abcdef")
    assert str(caught.value) == f"abcdef is short for several: {same[0]}, {same[1]}; give more characters"
    assert await store.ids.whole("search", same[0][-24:]) == same[0]
    for id in same[2:]:
        await store.searches.create(new_search(id=id))
    with pytest.raises(AmbiguousId, match="and others; give more"):
        await store.ids.whole("search", "abcdef")


async def test_an_operator_is_found_by_the_beginning_of_its_digest(store: Store) -> None:
    await stored_search(store)
    assert await store.ids.whole("operator", OPERATOR[:12]) == OPERATOR
    with pytest.raises(RecordNotFound):
        await store.ids.whole("operator", "7" * 12)


@pytest.mark.parametrize("kind", COLUMNS)
async def test_a_whole_id_and_signs_of_patterns_are_taken_as_they_are(store: Store, kind: Kind) -> None:
    await stored_search(store, id=str(uuid7()))
    assert await store.ids.whole(kind, "7" * 64) == "7" * 64
    for text in ("%", "______", "\\"):
        with pytest.raises(RecordNotFound):
            await store.ids.whole(kind, text)
