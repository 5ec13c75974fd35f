"""Money: no more is reserved than is allowed, whatever asks at once, and nothing reserved is lost."""

import asyncio
from typing import Any

import pytest

from archive.errors import RecordConflict
from archive.records import BudgetRecord, ChargeState, NewCharge, SpendingLimits
from archive.store import Store
from tests.archive.samples import new_exchange, stored_search, unique_id


async def charge(store: Store, **changes: Any) -> NewCharge:
    """A charge for an exchange of a new search."""
    search = changes.pop("search", None) or (await stored_search(store)).id
    exchange = changes.pop("exchange", None) or (await store.exchanges.open(new_exchange(search))).id
    values: dict[str, Any] = {"backend": "local", "strategy": "improve", "tokens": 100, "usd": 0.01, **changes}
    return NewCharge(id=unique_id(), exchange=exchange, search=search, **values)


async def again(store: Store, new: NewCharge, **changes: Any) -> NewCharge:
    """Another charge of the same search."""
    kept = {name: value for name, value in vars(new).items() if name != "id"}
    return await charge(store, **{**kept, **changes})


async def whole(store: Store, search: str) -> BudgetRecord:
    """The purse of the search as a whole."""
    return (await store.spending.of_search(search))[0]


def spent(purse: BudgetRecord) -> tuple[int, int, float, int]:
    return purse.calls, purse.tokens, purse.usd, purse.unpriced


async def test_a_reservation_counts_for_the_search_and_the_backend(store: Store) -> None:
    new = await charge(store)
    reserved = await store.spending.reserve(new, SpendingLimits(calls=5, usd=1.0), SpendingLimits(tokens=1000))
    assert reserved is not None
    assert reserved.state is ChargeState.RESERVED
    search, backend = await store.spending.of_search(new.search)
    assert (search.backend, search.calls_limit, search.tokens_limit, search.usd_limit) == ("", 5, None, 1.0)
    assert (backend.backend, backend.calls_limit, backend.tokens_limit, backend.usd_limit) == (
        "local",
        None,
        1000,
        None,
    )
    assert spent(search) == spent(backend) == (1, 100, 0.01, 0)
    assert await store.spending.outstanding(new.search) == [reserved]


async def test_a_reservation_sent_twice_counts_once(store: Store) -> None:
    new = await charge(store)
    first = await store.spending.reserve(new, SpendingLimits(calls=1), SpendingLimits())
    assert await store.spending.reserve(new, SpendingLimits(calls=1), SpendingLimits()) == first
    assert spent(await whole(store, new.search)) == (1, 100, 0.01, 0)


@pytest.mark.parametrize("limits", [SpendingLimits(calls=2), SpendingLimits(tokens=299), SpendingLimits(usd=0.029)])
@pytest.mark.parametrize("whose", ["search", "backend"])
async def test_a_limit_is_kept(store: Store, limits: SpendingLimits, whose: str) -> None:
    new = await charge(store)
    both = (limits, SpendingLimits()) if whose == "search" else (SpendingLimits(), limits)
    given = [await store.spending.reserve(await again(store, new), *both) for _ in range(4)]
    assert [each is not None for each in given] == [True, True, False, False]
    assert [spent(purse) for purse in await store.spending.of_search(new.search)] == [(2, 200, 0.02, 0)] * 2


async def test_one_call_over_every_limit_is_refused_at_once(store: Store) -> None:
    new = await charge(store)
    assert await store.spending.reserve(new, SpendingLimits(tokens=99), SpendingLimits()) is None
    assert await store.spending.of_search(new.search) == []


async def test_limits_are_exact_when_many_ask_at_once(store: Store) -> None:
    new = await charge(store)
    charges = [await again(store, new, backend=f"backend {index % 3}") for index in range(30)]
    given = await asyncio.gather(
        *(store.spending.reserve(each, SpendingLimits(usd=0.07), SpendingLimits(calls=4)) for each in charges)
    )
    assert sum(each is not None for each in given) == 7
    assert (await whole(store, new.search)).usd == 0.07


async def test_what_is_settled_replaces_what_was_reserved(store: Store) -> None:
    new = await charge(store)
    await store.spending.reserve(new, SpendingLimits(), SpendingLimits())
    for _ in range(2):
        await store.spending.settle(new.id, 40, 0.002)
    assert spent(await whole(store, new.search)) == (1, 40, 0.002, 0)
    assert await store.spending.outstanding(new.search) == []
    (arm,) = await store.exchanges.llm_stats(new.search)
    assert (arm.backend, arm.strategy, arm.calls, arm.tokens, arm.usd) == ("local", "improve", 1, 40, 0.002)


async def test_what_cost_nothing_is_given_back(store: Store) -> None:
    new = await charge(store)
    await store.spending.reserve(new, SpendingLimits(calls=1), SpendingLimits())
    for _ in range(2):
        await store.spending.release(new.id)
    assert spent(await whole(store, new.search)) == (0, 0, 0.0, 0)
    assert await store.exchanges.llm_stats(new.search) == []
    assert await store.spending.reserve(await again(store, new), SpendingLimits(calls=1), SpendingLimits()) is not None


async def test_what_became_of_a_call_being_unknown_all_of_it_counts(store: Store) -> None:
    new = await charge(store)
    await store.spending.reserve(new, SpendingLimits(), SpendingLimits())
    for _ in range(2):
        await store.spending.forfeit(new.id)
    await store.spending.release(new.id)
    assert spent(await whole(store, new.search)) == (1, 100, 0.01, 0)
    (arm,) = await store.exchanges.llm_stats(new.search)
    assert (arm.calls, arm.tokens, arm.usd) == (1, 100, 0.01)


async def test_an_answer_that_comes_late_corrects_what_was_given_up(store: Store) -> None:
    new = await charge(store)
    await store.spending.reserve(new, SpendingLimits(), SpendingLimits())
    await store.spending.forfeit(new.id)
    await store.spending.settle(new.id, 40, None)
    assert spent(await whole(store, new.search)) == (1, 40, 0.0, 1)
    (arm,) = await store.exchanges.llm_stats(new.search)
    assert (arm.calls, arm.tokens, arm.usd, arm.unpriced) == (1, 40, 0.0, 1)


async def test_an_unknown_price_is_counted_as_unknown(store: Store) -> None:
    new = await charge(store, usd=None)
    assert await store.spending.reserve(new, SpendingLimits(calls=3), SpendingLimits()) is not None
    assert spent(await whole(store, new.search)) == (1, 100, 0.0, 1)
    assert await store.spending.reserve(await again(store, new), SpendingLimits(usd=9.0), SpendingLimits()) is None
    await store.spending.settle(new.id, 50, 0.5)
    assert spent(await whole(store, new.search)) == (1, 50, 0.5, 0)


async def test_settling_at_once_counts_once(store: Store) -> None:
    new = await charge(store)
    await store.spending.reserve(new, SpendingLimits(), SpendingLimits())
    moves = [store.spending.settle(new.id, 40, 0.004), store.spending.release(new.id), store.spending.forfeit(new.id)]
    await asyncio.gather(*moves)
    calls, tokens, usd, _ = spent(await whole(store, new.search))
    assert (calls, tokens, usd) in {(1, 40, 0.004), (0, 0, 0.0), (1, 100, 0.01)}


async def test_an_unknown_exchange_is_refused_and_reserves_nothing(store: Store) -> None:
    new = await charge(store)
    with pytest.raises(RecordConflict):
        await store.spending.reserve(
            await charge(store, search=new.search, exchange="x"), SpendingLimits(), SpendingLimits()
        )
    assert await store.spending.of_search(new.search) == []


async def test_settling_what_nobody_knows_changes_nothing(store: Store) -> None:
    for call in (store.spending.settle("x", 1, 1.0), store.spending.release("x"), store.spending.forfeit("x")):
        await call
    assert await store.spending.outstanding("x") == []
