"""Verdicts in numbers are counted as they are one by one."""

from archive.records import CandidateVerdict
from archive.store import Store
from archive.store.engine import Database
from archive.store.verdicts import add_verdicts
from tests.archive.samples import DEVICE, new_variant, offer, stored_candidate, stored_search, traced


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


async def test_equal_plans_are_counted_apart_and_use_no_evaluation(store: Store) -> None:
    here, there = (await stored_search(store)).id, (await stored_search(store)).id
    told = {
        0: (here, ("a",)),
        1: (here, ("a",)),
        2: (here, ("a", "b")),
        3: (here, ("b", "a", None)),
        4: (here, ()),
        5: (there, ("a",)),
        6: (here, ("c",)),
        7: (here, ("c",)),
        8: (here, ("c",)),
    }
    ids = {}
    for ordinal, (search, plans) in told.items():
        ids[ordinal] = await stored_candidate(store, search, ordinal)
        variants = [new_variant(index, bundle=plan and plan * 64) for index, plan in enumerate(plans)]
        await store.candidates.save_trace(ids[ordinal], traced(*variants))
    batch = store.batch()
    for ordinal in (1, 0, 4, 5):
        batch.judge(CandidateVerdict(ids[ordinal], "correct", "", None, 1.0))
    assert len((await batch.flush()).evaluated) == 4, "each has its verdict"
    for ordinal, outcome in ((2, "correct"), (3, "correct"), (6, "worker_lost"), (7, "hang"), (8, "hang")):
        await store.candidates.judge(ids[ordinal], outcome, "", None, None)
    counts = await store.candidates.count(here)
    assert (counts.evaluated, counts.equal_plans, counts.in_flight) == (5, 3, 0), "0, 2, 4, 6 and 7"
    assert (await store.candidates.count(there)).evaluated == 1, "its own search evaluates a plan anew"
    assert (await store.elites.progress(here, DEVICE, 1)).outcomes == {"correct": 3, "worker_lost": 1, "hang": 1}
    for ordinal in (0, 1):
        batch.judge(CandidateVerdict(ids[ordinal], "wrong_result", "", None, None), revises=True)
    await batch.flush()
    outcomes = (await store.elites.progress(here, DEVICE, 1)).outcomes
    assert outcomes == {"correct": 2, "worker_lost": 1, "hang": 1, "wrong_result": 1}
