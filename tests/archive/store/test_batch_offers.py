"""Offers in numbers: entered once, in order, and decided by the database where they may win."""

from archive.records import Placement
from archive.store import Store
from archive.store.batch_offers import place
from archive.store.engine import Database
from tests.archive.samples import DEVICE, offer, stored_candidate, stored_search


async def test_a_job_gets_its_first_answer_again(store: Store, database_url: str) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    first, better = offer(search, candidate, 1.0), offer(search, candidate, 2.0)
    database = Database.open(database_url)
    async with database.write() as connection:
        assert await place(connection, [first, better, first]) == [Placement.NEW, Placement.IMPROVED, Placement.NEW]
        assert await place(connection, [better, first]) == [Placement.IMPROVED, Placement.NEW]
        assert await place(connection, []) == []
    await database.close()
    assert [each.placement for each in await store.elites.history(search, DEVICE)] == ["improved", "new"]
    assert (await store.elites.get(search, DEVICE, 1, 0)).revision == 2


async def test_an_equal_objective_loses(store: Store, database_url: str) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    database = Database.open(database_url)
    async with database.write() as connection:
        placed = await place(connection, [offer(search, candidate, 1.0), offer(search, candidate, 1.0)])
    await database.close()
    assert placed == [Placement.NEW, Placement.REJECTED]
