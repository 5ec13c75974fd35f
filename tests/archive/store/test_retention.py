"""Old searches go with all that only they hold; nothing else does."""

from datetime import timedelta

import pytest

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import SearchRecord, SearchState
from archive.store import Store, retention
from archive.tables import metadata
from tests.archive.fullness import engine_of, fill_empty_tables, rows_by_table
from tests.archive.samples import new_report, new_variant, offer, stored_candidate, stored_search, traced

SHARED, OWN = "5" * 64, "6" * 64


async def lived(store: Store, state: SearchState, *bundles: str) -> tuple[SearchRecord, str]:
    """A search with a candidate that has everything, in a state."""
    search = await stored_search(store)
    candidate = await stored_candidate(store, search.id)
    variants = [new_variant(index, bundle=bundle) for index, bundle in enumerate(bundles)]
    await store.candidates.save_trace(candidate, traced(*variants))
    await store.reports.save(new_report(search.id, candidate))
    await store.elites.offer(offer(search.id, candidate))
    await store.candidates.judge(candidate, "correct", "", None, 1.0)
    await store.searches.set_state(search.id, state)
    return search, candidate


async def test_an_ended_search_goes_with_all_it_alone_holds(store: Store) -> None:
    gone, candidate = await lived(store, SearchState.DONE, SHARED, OWN)
    kept, other = await lived(store, SearchState.RUNNING, SHARED)
    later = now() + timedelta(seconds=1)
    assert await store.retention.expired(later) == [gone.id]
    removed = await store.retention.prune(later)
    assert [removed[name] for name in ("searches", "candidates", "variants", "reports", "elites", "bundles")] == [
        1,
        1,
        2,
        1,
        1,
        1,
    ]
    with pytest.raises(RecordNotFound):
        await store.searches.get(gone.id)
    with pytest.raises(RecordNotFound):
        await store.candidates.get(candidate)
    with pytest.raises(RecordNotFound):
        await store.bundles.get(OWN)
    assert (await store.bundles.get(SHARED)).identity == SHARED
    assert (await store.searches.get(kept.id)).state is SearchState.RUNNING
    assert len(await store.reports.of_candidate(other)) == 1


async def test_what_ended_lately_stays(store: Store) -> None:
    search, _ = await lived(store, SearchState.STOPPED, OWN)
    before = now() - timedelta(days=1)
    assert await store.retention.expired(before) == []
    removed = await store.retention.prune(before)
    assert set(removed.values()) == {0}
    assert (await store.searches.get(search.id)).id == search.id


@pytest.mark.parametrize("state", [SearchState.PREPARING, SearchState.PAUSED])
async def test_what_has_not_ended_stays(store: Store, state: SearchState) -> None:
    search, _ = await lived(store, state, OWN)
    await store.retention.prune(now() + timedelta(days=1))
    assert (await store.searches.get(search.id)).state is state


def test_every_table_about_a_search_is_thought_of() -> None:
    """A column named after a search or a candidate is a foreign key, by which retention finds its rows."""
    loose = {
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if column.name in ("search", "candidate") and not column.foreign_keys
    }
    assert not loose


async def test_a_deleted_search_leaves_what_others_share(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 2)
    gone, _ = await lived(store, SearchState.STOPPED, SHARED, OWN)
    for ordinal in range(1, 6):
        child = await stored_candidate(store, gone.id, ordinal, parents=("elsewhere",))
        await store.candidates.save_trace(child, traced(new_variant(bundle=OWN)))
    kept, other = await lived(store, SearchState.DONE, SHARED)
    removed = await store.retention.delete(gone.id)
    assert (removed["candidates"], removed["candidate_parents"], removed["variants"], removed["bundles"]) == (
        6,
        5,
        7,
        1,
    )
    with pytest.raises(RecordNotFound):
        await store.searches.get(gone.id)
    assert (await store.operators.get(gone.operator)).digest == gone.operator
    assert (await store.bundles.get(SHARED)).identity == SHARED
    assert len(await store.reports.of_candidate(other)) == 1
    assert [elite.candidate for elite in await store.elites.list(kept.id, kept.devices[0], 1)] == [other]


@pytest.mark.parametrize("state", [SearchState.PREPARING, SearchState.RUNNING, SearchState.PAUSED])
async def test_an_open_search_cannot_be_deleted(store: Store, state: SearchState) -> None:
    search, candidate = await lived(store, state, OWN)
    with pytest.raises(RecordConflict, match=state.value):
        await store.retention.delete(search.id)
    assert (await store.candidates.get(candidate)).search == search.id
    with pytest.raises(RecordNotFound):
        await store.retention.delete("nobody")


async def test_a_search_goes_from_every_table(store: Store, database_url: str) -> None:
    fill_empty_tables(database_url)
    [search] = rows_by_table(database_url)["searches"]
    with engine_of(database_url).begin() as connection:
        connection.exec_driver_sql("UPDATE searches SET state = 'done'")
    await store.retention.delete(search["id"])
    left = rows_by_table(database_url)
    for table in metadata.tables.values():
        if any(key.column.table.name in ("searches", "candidates") for key in table.foreign_keys):
            assert left[table.name] == [], table.name
    assert left["searches"] == left["bundles"] == [] and len(left["operators"]) == 1


async def test_an_interrupted_deletion_is_told_and_can_be_repeated(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, _ = await lived(store, SearchState.DONE, OWN)
    monkeypatch.setattr(retention, "_OF_CANDIDATES", [])  # The first attempt fails on what still refers to a candidate.
    with pytest.raises(RecordConflict):
        await store.retention.delete(search.id)
    monkeypatch.undo()
    left = await store.searches.get(search.id)
    assert (left.state, left.reason) == (SearchState.FAILED, retention.INTERRUPTED)
    assert (await store.candidates.count(search.id)).candidates == 1
    await store.retention.delete(search.id)
    with pytest.raises(RecordNotFound):
        await store.searches.get(search.id)
