from archive.records import Milestone, NewCharge, SpendingLimits
from archive.store import Store
from archive.store.milestones import is_milestone
from tests.archive.samples import DEVICE, new_exchange, offer, stored_candidate, stored_search, unique_id


def test_milestones_grow_rarer() -> None:
    assert [number for number in range(1, 300) if not is_milestone(number)] == list(range(257, 300, 2))
    assert sum(map(is_milestone, range(1, 1_000_001))) < 1800
    assert is_milestone(2**20) and not is_milestone(2**20 + 1)


async def test_a_verdict_leaves_a_milestone_once_a_cell_is_filled(store: Store) -> None:
    search = (await stored_search(store)).id
    first = await stored_candidate(store, search)
    await store.candidates.judge(first, "compile_error", "", None, None)
    assert await store.views.milestones(search, DEVICE) == []
    second = await stored_candidate(store, search, 1)
    await store.elites.offer(offer(search, second, 1.5, cell=3))
    await store.elites.offer(offer(search, second, 2.5, cell=4))
    await store.elites.offer(offer(search, second, 9.0, cell=5, axes_version=2))
    await store.candidates.judge(second, "correct", "", None, 2.5)
    (milestone,) = await store.views.milestones(search, DEVICE)
    assert milestone == Milestone(2, 2, 4.0, 2.5, None, milestone.reached_at)
    assert await store.views.milestones(search, DEVICE, spacing=2) == [milestone]
    assert await store.views.milestones(search, DEVICE, spacing=4) == []


async def test_a_milestone_says_what_models_had_cost(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    exchange = await store.exchanges.open(new_exchange(search))
    charge = NewCharge(unique_id(), exchange.id, search, "local", "improve", 100, 0.25)
    assert await store.spending.reserve(charge, SpendingLimits(), SpendingLimits()) is not None
    await store.elites.offer(offer(search, candidate))
    await store.candidates.judge(candidate, "correct", "", None, 1.0)
    assert [each.usd for each in await store.views.milestones(search, DEVICE)] == [0.25]


async def test_a_second_verdict_leaves_none(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    await store.elites.offer(offer(search, candidate))
    await store.candidates.judge(candidate, "correct", "", None, 1.0)
    await store.candidates.judge(candidate, "correct", "", None, 1.0)
    assert [each.evaluations for each in await store.views.milestones(search, DEVICE)] == [1]
