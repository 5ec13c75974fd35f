"""Tallies count events exactly, also when many happen at once."""

import asyncio

from archive.store import Store
from tests.archive.samples import DEVICE, offer, stored_candidate, stored_search


async def test_events_at_once_are_all_counted(store: Store) -> None:
    search = (await stored_search(store)).id
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(20)]
    outcomes = ["correct" if place % 4 else "wrong_result" for place in range(len(ids))]
    await asyncio.gather(
        *(store.candidates.judge(id, outcome, "", None, None) for id, outcome in zip(ids, outcomes, strict=True))
    )
    progress = await store.elites.progress(search, DEVICE, 1)
    assert progress.outcomes == {"correct": 15, "wrong_result": 5}
    assert progress.emitters == {"tune": {"proposals": 20, "judged": 20, "correct": 15, "promotions": 0}}


async def test_promotions_are_counted_by_device(store: Store) -> None:
    search = (await stored_search(store)).id
    id = await stored_candidate(store, search)
    for device, objective in [(DEVICE, 1.0), (DEVICE, 2.0), (DEVICE, 0.5), ("model:sm_80", 1.0)]:
        await store.elites.offer(offer(search, id, objective, device=device))
    progress = {device: await store.elites.progress(search, device, 1) for device in (DEVICE, "model:sm_80")}
    assert progress[DEVICE].emitters["tune"]["promotions"] == 2
    assert progress["model:sm_80"].emitters["tune"]["promotions"] == 1


async def test_searches_are_counted_apart(store: Store) -> None:
    first, second = (await stored_search(store)).id, (await stored_search(store)).id
    await store.candidates.judge(await stored_candidate(store, first), "correct", "", None, None)
    assert (await store.elites.progress(second, DEVICE, 1)).emitters == {}
