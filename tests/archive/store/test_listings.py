"""Lists are filtered and sorted by the database, and their pages leave nothing out and repeat nothing."""

from typing import Any

import pytest

from archive.records import (
    CANDIDATE_SORTS,
    SEARCH_SORTS,
    CandidateFilter,
    CandidateState,
    Listed,
    SearchFilter,
    SearchRecord,
    SearchState,
)
from archive.store import Store, listings
from archive.store.listings import ANY_SEARCH, CANDIDATE_KEYS, SEARCH_KEYS
from tests.archive.samples import DEVICE, offer, stored_candidate, stored_search


async def all_searches(store: Store, sort: str, where: SearchFilter = ANY_SEARCH, limit: int = 2) -> list[str]:
    """Ids of all listed searches, read a page at a time."""
    ids: list[str] = []
    after = None
    while True:
        found = await store.listings.searches(where, sort=sort, after=after, limit=limit)
        assert len(found.items) <= limit
        ids += [search.id for search in found.items]
        if (after := found.after) is None:
            return ids


async def all_candidates(store: Store, search: str, sort: str = "-created", limit: int = 2, **where: Any) -> list[int]:
    """Ordinals of all listed candidates, read a page at a time."""
    ordinals: list[int] = []
    after = None
    while True:
        found = await store.listings.candidates(search, CandidateFilter(**where), sort=sort, after=after, limit=limit)
        assert len(found.items) <= limit
        ordinals += [candidate.ordinal for candidate in found.items]
        if (after := found.after) is None:
            return ordinals


async def five_searches(store: Store) -> list[SearchRecord]:
    """Searches of which two share a name, and three have elites."""
    names, operators = ["b", "a", "b", "", "c"], ["rmsnorm", "softmax", "rmsnorm", "rmsnorm", "softmax"]
    found = []
    for place, (name, operator) in enumerate(zip(names, operators, strict=True)):
        devices = (DEVICE, "h200") if place == 3 else (DEVICE,)
        search = await stored_search(store, name=name, operator_name=operator, devices=devices)
        found.append(search)
    for search, objective in zip(found, (1.5, 3.0, 1.5, None, None), strict=True):
        if objective:
            candidate = await stored_candidate(store, search.id)
            await store.elites.offer(offer(search.id, candidate, objective))
            await store.elites.offer(offer(search.id, candidate, 99.0, device="h200"))
    return found


async def test_searches_are_sorted_with_nothing_left_out(store: Store) -> None:
    a, b, c, d, e = (search.id for search in await five_searches(store))
    expected = {
        "created": [a, b, c, d, e],
        "name": [d, b, a, c, e],
        "operator": [a, c, d, b, e],
        "best": [d, e, a, c, b],
    }
    for sort, ids in expected.items():
        assert await all_searches(store, sort) == ids, sort
        assert await all_searches(store, f"-{sort}") == ids[::-1], sort
        assert await all_searches(store, sort, limit=9) == ids
    assert expected.keys() == SEARCH_SORTS.keys() == SEARCH_KEYS.keys()


async def test_searches_are_filtered(store: Store) -> None:
    first = await stored_search(store, name="Paper run", tags=("paper", "h100"), notes="100 % sure", owner="ada")
    second = await stored_search(store, operator_name="softmax", devices=("h200", DEVICE), tags=("paper",))
    await store.searches.set_state(second.id, SearchState.DONE)
    for where, ids in (
        (SearchFilter(), [second.id, first.id]),
        (SearchFilter(states=(SearchState.DONE, SearchState.FAILED)), [second.id]),
        (SearchFilter(operator="rmsnorm"), [first.id]),
        (SearchFilter(device="h200"), [second.id]),
        (SearchFilter(device="model:sm_9"), []),
        (SearchFilter(device="model:sm%90"), []),
        (SearchFilter(owner="ada"), [first.id]),
        (SearchFilter(owner=""), [second.id]),
        (SearchFilter(tags=("paper",)), [second.id, first.id]),
        (SearchFilter(tags=("paper", "h100")), [first.id]),
        (SearchFilter(text="paper RUN"), [first.id]),
        (SearchFilter(text="0 %"), [first.id]),
        (SearchFilter(text="%"), [first.id]),
        (SearchFilter(text="SOFT"), [second.id]),
        (SearchFilter(text="paper", operator="softmax"), []),
    ):
        assert await all_searches(store, "-created", where) == ids, where
    await store.searches.label(first.id, tags=["h100"])
    assert await all_searches(store, "-created", SearchFilter(tags=("paper",))) == [second.id]


async def seven_candidates(store: Store) -> str:
    """A search with candidates of two emitters; those with even ordinals are correct."""
    search = (await stored_search(store)).id
    for ordinal in range(7):
        emitter = "tune" if ordinal < 4 else "rewrite"
        id = await stored_candidate(store, search, ordinal, emitter=emitter, source=f"x = {ordinal}  # Row_{ordinal}\n")
        if ordinal == 6:
            continue
        if ordinal % 2:
            await store.candidates.judge(id, "hang", f"no answer in {ordinal} s", None, None)
        else:
            objective = 2.0 if ordinal else 3.0
            await store.candidates.judge(id, "correct", "", None, objective, {DEVICE: objective})
            await store.elites.offer(offer(search, id, objective, cell=ordinal // 4))
    return search


async def test_candidates_are_sorted_with_nothing_left_out(store: Store) -> None:
    search = await seven_candidates(store)
    expected = {"created": [0, 1, 2, 3, 4, 5, 6], "objective": [2, 4, 0]}
    for sort, ordinals in expected.items():
        for limit in (1, 2, 9):
            assert await all_candidates(store, search, sort, limit) == ordinals, sort
            assert await all_candidates(store, search, f"-{sort}", limit) == ordinals[::-1], sort
    assert expected.keys() == CANDIDATE_SORTS.keys() == CANDIDATE_KEYS.keys()


@pytest.mark.parametrize("read", [1, 3, 5_000])
async def test_candidates_are_filtered_however_few_a_page_reads(
    store: Store, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "READ_PER_PAGE", read)
    search = await seven_candidates(store)
    for where, ordinals in (
        ({"emitter": "rewrite"}, [6, 5, 4]),
        ({"outcome": "hang"}, [5, 3, 1]),
        ({"emitter": "tune", "outcome": "hang"}, [3, 1]),
        ({"state": CandidateState.QUEUED}, [6]),
        ({"state": CandidateState.JUDGED, "emitter": "rewrite"}, [5, 4]),
        ({"device": DEVICE}, [4, 2, 0]),
        ({"device": "h200"}, []),
        ({"cell": 0}, [2, 0]),
        ({"cell": 1, "device": DEVICE}, [4]),
        ({"cell": 1, "device": "h200"}, []),
        ({"text": "row_3"}, [3]),
        ({"text": "NO ANSWER in"}, [5, 3, 1]),
        ({"text": "row%"}, []),
        ({"text": "row", "emitter": "rewrite", "outcome": "correct"}, [4]),
    ):
        assert await all_candidates(store, search, **where) == ordinals, where
        assert await all_candidates(store, search, "created", **where) == ordinals[::-1], where
        ranked = [ordinal for ordinal in (0, 4, 2) if ordinal in ordinals]
        assert await all_candidates(store, search, "-objective", **where) == ranked, where
        assert await all_candidates(store, search, "objective", **where) == ranked[::-1], where


async def test_a_filtered_page_reads_a_limited_number_of_candidates(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "READ_PER_PAGE", 3)
    search = await seven_candidates(store)
    where = CandidateFilter(text="row_0")
    assert await store.listings.candidates(search, where) == Listed((), (4,))
    assert (await store.listings.candidates(search, where, after=(4,))).after == (1,)
    last = await store.listings.candidates(search, where, after=(1,))
    assert ([each.ordinal for each in last.items], last.after) == ([0], None)


async def test_listed_candidates_come_without_their_source(store: Store) -> None:
    search = (await stored_search(store)).id
    id = await stored_candidate(store, search)
    await store.candidates.judge(id, "precision", "too far off", 3, None)
    (judged,) = (await store.listings.candidates(search)).items
    assert not hasattr(judged, "source")
    assert (judged.id, judged.reason, judged.line, judged.state) == (id, "too far off", 3, "judged")
