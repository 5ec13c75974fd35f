"""Verdicts in numbers are counted as they are one by one."""

from archive.records import CandidateVerdict
from archive.store import Store
from archive.store.engine import Database
from archive.store.verdicts import add_verdicts
from tests.archive.samples import DEVICE, offer, stored_candidate, stored_search


async def test_first_verdicts_are_counted_by_search_and_leave_one_milestone(store: Store, database_url: str) -> None:
    here, there = (await stored_search(store)).id, (await stored_search(store)).id
    mine = [await stored_candidate(store, here, ordinal) for ordinal in range(3)]
    other = await stored_candidate(store, there)
    await store.elites.offer(offer(here, mine[0], 2.0))
    await store.candidates.judge(mine[0], "correct", "", None, 2.0)
    database = Database.open(database_url)
    given = [CandidateVerdict(id, "hang", "waited", 3, None) for id in (*mine, other, "nobody")]
    async with database.write() as connection:
        assert await add_verdicts(connection, given) == {mine[1], mine[2], other}
        assert await add_verdicts(connection, given) == set()
        assert await add_verdicts(connection, []) == set()
    await database.close()
    assert [(await store.candidates.count(search)).evaluated for search in (here, there)] == [3, 1]
    assert (await store.elites.progress(here, DEVICE, 1)).outcomes == {"correct": 1, "hang": 2}
    assert [each.evaluations for each in await store.views.milestones(here, DEVICE)] == [1, 3]
    judged = await store.candidates.get(mine[1])
    assert (judged.outcome, judged.reason, judged.line) == ("hang", "waited", 3)
