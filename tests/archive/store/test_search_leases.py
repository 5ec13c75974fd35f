"""One coordinator runs a search; when it stops renewing another one may, and what the first still writes is refused."""

import asyncio

import pytest

from archive.errors import RecordConflict
from archive.records import SearchState
from archive.store import Store
from tests.archive.samples import new_candidate, stored_candidate, stored_search

TERM_S = 5.0
LAPSED_S = -1.0
"""A term that is over when it begins."""


async def taken(store: Store, holder: str, term_s: float = TERM_S, **options: bool) -> list[str]:
    return sorted(tenure.search for tenure in await store.search_leases.take(holder, term_s, most=100, **options))


async def test_an_open_search_is_taken_once(store: Store) -> None:
    first, second = [(await stored_search(store)).id for _ in range(2)]
    await store.searches.set_state(second, SearchState.DONE)
    assert await taken(store, "a") == [first]
    assert await taken(store, "b") == [] and await taken(store, "a") == []


async def test_of_many_that_take_at_once_each_search_has_one_holder(store: Store) -> None:
    searches = {(await stored_search(store)).id for _ in range(20)}
    shares = await asyncio.gather(*(store.search_leases.take(f"c{number}", TERM_S, most=5) for number in range(8)))
    got = [tenure.search for share in shares for tenure in share]
    assert len(got) == len(set(got)) and set(got) <= searches and max(map(len, shares)) <= 5


async def test_a_lapsed_tenure_changes_hands_and_its_fence_grows(store: Store) -> None:
    search = (await stored_search(store)).id
    await taken(store, "a", LAPSED_S)
    assert await taken(store, "b") == [search]
    assert await store.search_leases.renew("a", TERM_S) == []
    tenure = await store.search_leases.get(search)
    assert tenure is not None and (tenure.holder, tenure.fence) == ("b", 2)


async def test_a_lapsed_tenure_that_nobody_took_is_renewed(store: Store) -> None:
    search = (await stored_search(store)).id
    await taken(store, "a", LAPSED_S)
    assert [tenure.search for tenure in await store.search_leases.renew("a", TERM_S)] == [search]
    assert await taken(store, "b") == []


async def test_what_is_let_go_is_free_at_once(store: Store) -> None:
    search = (await stored_search(store)).id
    await taken(store, "a")
    await store.search_leases.release("b", [search])
    assert await taken(store, "b") == []
    await store.search_leases.release("a", [search])
    assert await taken(store, "b") == [search]


async def test_one_search_is_taken_by_name(store: Store) -> None:
    first, second = [(await stored_search(store)).id for _ in range(2)]
    named = await store.search_leases.take("a", TERM_S, most=1, search=second)
    assert [tenure.search for tenure in named] == [second]
    assert await taken(store, "b") == [first]


async def test_who_is_alone_takes_by_force(store: Store) -> None:
    search = (await stored_search(store)).id
    await taken(store, "an earlier life")
    assert await taken(store, "me", by_force=True) == [search]
    assert await taken(store, "me", by_force=True) == []


async def test_who_lost_a_search_proposes_and_ends_nothing(store: Store) -> None:
    search = (await stored_search(store)).id
    await taken(store, "a", LAPSED_S)
    assert await store.candidates.add(new_candidate(search, 0), holder="a") is not None
    await taken(store, "b")
    with pytest.raises(RecordConflict, match="another coordinator"):
        await store.candidates.add(new_candidate(search, 1), holder="a")
    with pytest.raises(RecordConflict, match="another coordinator"):
        await store.searches.set_state(search, SearchState.DONE, holder="a")
    assert (await store.candidates.count(search)).proposals == 1
    assert await store.candidates.add(new_candidate(search, 1), holder="b") is not None
    assert (await store.searches.set_state(search, SearchState.DONE, holder="b")).state is SearchState.DONE


async def test_a_take_over_waits_for_a_write_under_the_old_tenure(store: Store) -> None:
    search = (await stored_search(store)).id
    await taken(store, "a", LAPSED_S)
    adds = (store.candidates.add(new_candidate(search, ordinal), holder="a") for ordinal in range(20))
    outcomes = await asyncio.gather(*adds, taken(store, "b"), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, RecordConflict)]
    assert len(outcomes) == 21 and outcomes[-1] == [search]
    assert (await store.candidates.count(search)).candidates == 20 - len(refused)


async def test_marks_tell_what_changed(store: Store) -> None:
    first, second = [await stored_search(store) for _ in range(2)]
    await stored_candidate(store, first.id)
    fingerprints = {fingerprint.id: fingerprint for fingerprint in await store.search_leases.fingerprints()}
    assert (fingerprints[first.id].in_flight, fingerprints[second.id].in_flight, fingerprints[first.id].owner) == (
        1,
        0,
        "",
    )
    changed = await store.searches.change(second.id, evaluations=7)
    await store.searches.set_state(first.id, SearchState.STOPPED)
    fingerprints = {fingerprint.id: fingerprint for fingerprint in await store.search_leases.fingerprints()}
    assert list(fingerprints) == [second.id] and fingerprints[second.id].updated_at == changed.updated_at


async def test_a_share_is_fair_among_those_who_live(store: Store) -> None:
    ended, *_ = [(await stored_search(store)).id for _ in range(8)]
    await store.searches.set_state(ended, SearchState.DONE)
    assert await store.search_leases.attend("a", TERM_S) == 7
    assert await store.search_leases.attend("b", TERM_S) == await store.search_leases.attend("a", TERM_S) == 4
    assert await store.search_leases.attend("c", LAPSED_S) == 4
    assert await store.search_leases.attend("a", TERM_S) == 4
    await store.search_leases.leave("b")
    await store.search_leases.leave("b")
    assert await store.search_leases.attend("a", TERM_S) == 7


async def test_a_done_search_that_is_finishing_is_taken_until_it_is_finished(store: Store) -> None:
    search = (await stored_search(store)).id
    await store.searches.set_state(search, SearchState.DONE, finishing=True)
    assert [fingerprint.id for fingerprint in await store.search_leases.fingerprints()] == [search]
    assert await taken(store, "a") == [search] and await store.search_leases.attend("a", TERM_S) == 1
    with pytest.raises(RecordConflict, match="another coordinator"):
        await store.searches.finish(search, holder="b")
    assert await store.searches.finish(search, holder="a")
    assert not await store.searches.finish(search, holder="a")
    assert await store.search_leases.fingerprints() == [] and await store.search_leases.attend("a", TERM_S) == 0
