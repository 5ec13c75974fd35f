"""Hints: kept once, so many a search, whatever their text, and taken away again."""

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import NewHint
from archive.store import Store
from tests.archive.samples import stored_search, unique_id


async def test_hints_of_a_search_in_their_order(store: Store) -> None:
    search, other = (await stored_search(store)).id, (await stored_search(store)).id
    first = await store.hints.put(NewHint(unique_id(), search, "try wider loads", "ada"), most=9)
    second = await store.hints.put(NewHint(unique_id(), search, "rows fit into shared memory"), most=9)
    await store.hints.put(NewHint(unique_id(), other, "not here"), most=9)
    assert await store.hints.list(search) == [first, second]
    assert (first.text, first.author, second.author) == ("try wider loads", "ada", "")


async def test_a_hint_is_kept_once_and_counted(store: Store) -> None:
    search = (await stored_search(store)).id
    new = NewHint(unique_id(), search, "try wider loads")
    kept = await store.hints.put(new, most=1)
    assert await store.hints.put(new, most=1) == kept
    with pytest.raises(RecordConflict, match="may have 1 hints"):
        await store.hints.put(NewHint(unique_id(), search, "another"), most=1)
    with pytest.raises(RecordConflict):
        await store.hints.put(NewHint(unique_id(), "nothing", "another"), most=1)


async def test_text_that_no_database_holds_is_kept_all_the_same(store: Store) -> None:
    search = (await stored_search(store)).id
    await store.hints.put(NewHint(unique_id(), search, "a\0b\ud800"), most=9)
    assert [hint.text for hint in await store.hints.list(search)] == ["a\ufffdb?"]


async def test_a_hint_is_taken_away_once(store: Store) -> None:
    search = (await stored_search(store)).id
    kept = await store.hints.put(NewHint(unique_id(), search, "try wider loads"), most=9)
    await store.hints.remove(search, kept.id)
    assert await store.hints.list(search) == []
    with pytest.raises(RecordNotFound):
        await store.hints.remove(search, kept.id)
