"""Second traces: kept once, found by what traces share."""

from datetime import UTC, datetime, timedelta

import pytest

from archive.errors import RecordConflict
from archive.records import SearchState
from archive.store import Store
from tests.archive.samples import stored_candidate, stored_search


async def _keep(store: Store, key: str, candidate: str, bundles: list[str | None]) -> None:
    batch = store.batch()
    await batch.keep_retrace(key, candidate, bundles)
    await batch.flush()


async def test_the_first_one_counts_and_is_found_by_its_key(store: Store) -> None:
    candidate = await stored_candidate(store, (await stored_search(store)).id)
    assert await store.retraces.find("key") is None
    for bundles in (["a", None], ["b"], ["a", None]):
        await _keep(store, "key", candidate, bundles)
    found = await store.retraces.find("key")
    assert found is not None and (found.candidate, found.bundles) == (candidate, ("a", None))
    assert await store.retraces.find("other") is None


async def test_who_was_second_to_find_something_else_has_to_look_again(store: Store) -> None:
    candidate = await stored_candidate(store, (await stored_search(store)).id)
    batches = [store.batch() for _ in range(3)]
    for batch, bundles in zip(batches, (["a"], ["a"], ["b"]), strict=True):
        await batch.keep_retrace("key", candidate, bundles)
    await batches[0].flush()
    await batches[1].flush()
    with pytest.raises(RecordConflict, match="differs"):
        await batches[2].flush()
    again = store.batch()
    await again.keep_retrace("key", candidate, ["b"])
    await again.flush()
    found = await store.retraces.find("key")
    assert found is not None and found.bundles == ("a",)


async def test_a_candidate_has_to_be_there(store: Store) -> None:
    with pytest.raises(RecordConflict):
        await _keep(store, "key", "nobody", ["a"])


async def test_it_goes_with_its_search(store: Store) -> None:
    search = await stored_search(store)
    await _keep(store, "key", await stored_candidate(store, search.id), ["a"])
    await store.searches.set_state(search.id, SearchState.STOPPED)
    removed = await store.retention.prune(datetime.now(UTC) + timedelta(days=1))
    assert removed["retraces"] == 1 and await store.retraces.find("key") is None
