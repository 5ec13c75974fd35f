"""A search is read again when it has changed, and not before."""

from pathlib import Path

import pytest

from archive.errors import RecordNotFound
from archive.records import SearchState
from service.scheduler.search_cache import SearchCache
from tests.service import records
from tests.service.workbench import Workbench


async def test_a_search_is_read_again_once_it_changed(tmp_path: Path, redis_url: str) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search, cache = await bench.begin(), SearchCache(bench.store)
    await cache.look()
    first = await cache.get(search.id)
    assert first == search and await cache.get(search.id) is first
    assert await cache.operator(search) == records.OPERATOR
    await bench.store.searches.change(search.id, evaluations=77)
    await cache.look()
    assert (await cache.get(search.id)).evaluations == 77
    assert cache.fingerprints[search.id].state is SearchState.PREPARING
    await bench.close()


async def test_a_search_that_ended_is_still_found_and_an_unknown_one_is_not(tmp_path: Path, redis_url: str) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search, cache = await bench.begin(), SearchCache(bench.store)
    await bench.store.searches.set_state(search.id, SearchState.STOPPED)
    await cache.look()
    assert cache.fingerprints == {} and (await cache.get(search.id)).state is SearchState.STOPPED
    with pytest.raises(RecordNotFound):
        await cache.get("none")
    await bench.close()


async def test_what_a_person_ended_is_not_among_those_that_go_on(tmp_path: Path, redis_url: str) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    ids = [(await bench.begin(id=f"search-{number}")).id for number in range(3)]
    cache = SearchCache(bench.store)
    await cache.look()
    await bench.store.searches.set_state(ids[0], SearchState.STOPPED)
    asked = [*ids, "unknown"]
    assert [search.id for search in await cache.those(asked, (SearchState.PREPARING,))] == ids[1:]
    assert cache.by_load(asked) == ids
    await bench.close()
