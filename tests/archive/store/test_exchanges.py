"""Exchanges from the prompt to what came of it."""

import asyncio
from datetime import timedelta

import pytest

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import ExchangeState, LlmReply, NewCharge, SpendingLimits
from archive.store import Store
from tests.archive.samples import new_exchange, stored_candidate, stored_search, unique_id

REPLY = LlmReply("```python\n```", "model-1", 12, 34, 0.25)


async def opened(store: Store, **changes: object) -> str:
    """Id of an exchange of a new search."""
    return (await store.exchanges.open(new_exchange((await stored_search(store)).id, **changes))).id  # type: ignore[arg-type]


async def waiting(store: Store) -> str:
    return await opened(store, state=ExchangeState.WAITING)


async def reserved(store: Store, exchange: str) -> str:
    """Id of a charge for an exchange."""
    found = await store.exchanges.get(exchange)
    new = NewCharge(unique_id(), exchange, found.search, found.backend, found.strategy, 1000, 1.0)
    assert await store.spending.reserve(new, SpendingLimits(), SpendingLimits()) is not None
    return new.id


async def test_an_exchange_comes_back_as_it_was_stored(store: Store) -> None:
    search = await stored_search(store)
    new = new_exchange(search.id, 3, parents=("a", "b"), cell=4, claims={"best": "job"}, user="h\u00e9\0\ud800")
    exchange = await store.exchanges.open(new)
    assert {**vars(exchange), **vars(new), "user": exchange.user} == vars(exchange)
    assert exchange.user == "h\u00e9\0?"
    assert (exchange.text, exchange.outcome, exchange.answered_at) == (None, None, None)
    assert await store.exchanges.get(new.id) == exchange


async def test_the_same_prompt_of_the_same_proposal_is_one_exchange(store: Store) -> None:
    search = await stored_search(store)
    new = new_exchange(search.id)
    first = await store.exchanges.open(new)
    await store.exchanges.answer(first.id, REPLY)
    again = await store.exchanges.open(new_exchange(search.id, backend="other"))
    assert (again.id, again.text, again.backend) == (first.id, REPLY.text, "local")
    assert await store.exchanges.find(search.id, new.ordinal, new.step, new.digest) == again
    assert await store.exchanges.find(search.id, new.ordinal, 7, new.digest) is None
    for other in ({"ordinal": 1}, {"step": 1}, {"digest": "another"}):
        assert (await store.exchanges.open(new_exchange(**{"search": search.id, **other}))).id != first.id  # type: ignore[arg-type]


async def test_of_many_who_open_one_exchange_all_get_the_same(store: Store) -> None:
    search = await stored_search(store)
    found = await asyncio.gather(*(store.exchanges.open(new_exchange(search.id)) for _ in range(8)))
    assert len({exchange.id for exchange in found}) == 1


async def test_one_that_failed_is_opened_again(store: Store) -> None:
    search = await stored_search(store)
    first = await store.exchanges.open(new_exchange(search.id))
    failed = await store.exchanges.fail(first.id, "no answer")
    assert (failed.state, failed.reason) == (ExchangeState.FAILED, "no answer")
    again = await store.exchanges.open(new_exchange(search.id, backend="other"))
    assert (again.id, again.backend, again.state, again.reason) == (first.id, "other", ExchangeState.ASKED, "")


async def test_an_answer_settles_what_it_cost(store: Store) -> None:
    id = await opened(store)
    charge = await reserved(store, id)
    answered = await store.exchanges.answer(id, REPLY, charge=charge)
    assert (answered.state, answered.text, answered.model) == (ExchangeState.ANSWERED, REPLY.text, "model-1")
    assert (answered.input_tokens, answered.output_tokens, answered.cost_usd) == (12, 34, 0.25)
    assert answered.answered_at is not None
    purse = (await store.spending.of_search(answered.search))[0]
    assert (purse.calls, purse.tokens, purse.usd) == (1, 46, 0.25)


async def test_the_first_answer_stays_and_is_paid_once(store: Store) -> None:
    id = await opened(store)
    charge = await reserved(store, id)
    first = await store.exchanges.answer(id, REPLY, charge=charge)
    assert await store.exchanges.answer(id, LlmReply("other", "m", 1, 1, 9.0), charge=charge) == first
    assert (await store.exchanges.fail(id, "too late")).state is ExchangeState.ANSWERED
    assert (await store.spending.of_search(first.search))[0].usd == 0.25


async def test_a_charge_that_comes_after_the_answer_is_settled(store: Store) -> None:
    id = await waiting(store)
    await store.exchanges.answer(id, REPLY, claimed_by="ada")
    late = await store.exchanges.answer(id, LlmReply("other", "m", 1, 1, 9.0), charge=await reserved(store, id))
    assert late.text == REPLY.text
    assert (await store.spending.of_search(late.search))[0].usd == 0.25
    assert await store.spending.outstanding(late.search) == []


async def test_an_answer_after_giving_up_is_kept(store: Store) -> None:
    id = await opened(store)
    charge = await reserved(store, id)
    await store.exchanges.fail(id, "interrupted", forfeit=charge)
    assert (await store.spending.of_search((await store.exchanges.get(id)).search))[0].usd == 1.0
    late = await store.exchanges.answer(id, REPLY, charge=charge)
    assert (late.state, late.reason) == (ExchangeState.ANSWERED, "")
    assert (await store.spending.of_search(late.search))[0].usd == 0.25


async def test_a_refusal_is_kept_with_its_cost(store: Store) -> None:
    id = await opened(store)
    reply = LlmReply("I will not.", "model-1", 12, 3, 0.01, refused=True, reason="refused by its rules")
    refused = await store.exchanges.answer(id, reply, charge=await reserved(store, id))
    assert (refused.state, refused.reason, refused.text) == (
        ExchangeState.REFUSED,
        "refused by its rules",
        "I will not.",
    )
    assert (await store.spending.of_search(refused.search))[0].usd == 0.01


async def test_a_prompt_that_waits_is_claimed_renewed_and_answered(store: Store) -> None:
    id = await waiting(store)
    claimed = await store.exchanges.claim(id, "ada", 60)
    assert (claimed.state, claimed.claimed_by) == (ExchangeState.CLAIMED, "ada")
    assert claimed.lease_until is not None
    assert timedelta(seconds=50) < claimed.lease_until - now() <= timedelta(seconds=60)
    renewed = await store.exchanges.renew(id, "ada", 600)
    assert renewed.lease_until is not None
    assert renewed.lease_until > claimed.lease_until
    answered = await store.exchanges.answer(id, REPLY, claimed_by="ada")
    assert (answered.state, answered.claimed_by) == (ExchangeState.ANSWERED, "ada")
    assert await store.exchanges.answer(id, REPLY, claimed_by="ada") == answered
    with pytest.raises(RecordConflict, match="answered"):
        await store.exchanges.answer(id, LlmReply("other", "", 0, 0, None), claimed_by="ada")
    with pytest.raises(RecordConflict, match="answered"):
        await store.exchanges.claim(id, "ada", 60)


async def test_what_one_holds_is_nobody_elses(store: Store) -> None:
    id = await waiting(store)
    await store.exchanges.claim(id, "ada", 60)
    for call in (
        store.exchanges.claim(id, "bob", 60),
        store.exchanges.renew(id, "bob", 60),
        store.exchanges.release(id, "bob"),
        store.exchanges.answer(id, REPLY, claimed_by="bob"),
    ):
        with pytest.raises(RecordConflict, match="claimed by 'ada'"):
            await call
    assert (await store.exchanges.get(id)).claimed_by == "ada"


async def test_of_many_who_claim_one_gets_it(store: Store) -> None:
    id = await waiting(store)
    claims = [store.exchanges.claim(id, f"holder {index}", 60) for index in range(8)]
    results = await asyncio.gather(*claims, return_exceptions=True)
    assert [isinstance(result, RecordConflict) for result in results].count(False) == 1


async def test_a_lease_that_lapsed_binds_nobody(store: Store) -> None:
    id = await waiting(store)
    await store.exchanges.claim(id, "ada", -1)
    assert (await store.exchanges.claim(id, "bob", -1)).claimed_by == "bob"
    assert (await store.exchanges.answer(id, REPLY, claimed_by="ada")).state is ExchangeState.ANSWERED


async def test_a_released_prompt_waits_again(store: Store) -> None:
    id = await waiting(store)
    await store.exchanges.claim(id, "ada", 60)
    released = await store.exchanges.release(id, "ada")
    assert (released.state, released.claimed_by, released.lease_until) == (ExchangeState.WAITING, None, None)
    assert (await store.exchanges.claim(id, "bob", 60)).claimed_by == "bob"


async def test_only_prompts_that_wait_can_be_claimed(store: Store) -> None:
    id = await opened(store)
    with pytest.raises(RecordConflict, match="is asked and cannot be claimed"):
        await store.exchanges.claim(id, "ada", 60)
    with pytest.raises(RecordConflict, match="is asked"):
        await store.exchanges.answer(id, REPLY, claimed_by="ada")


async def test_a_conclusion_is_counted_once(store: Store) -> None:
    search = await stored_search(store)
    candidate = await stored_candidate(store, search.id)
    ids = [(await store.exchanges.open(new_exchange(search.id, ordinal))).id for ordinal in range(3)]
    assert await store.exchanges.conclude(ids[0], "candidate", candidate=candidate)
    assert not await store.exchanges.conclude(ids[0], "unusable", "no code")
    assert await store.exchanges.conclude(ids[1], "unusable", "no code\0")
    assert await store.exchanges.conclude(ids[2], "unusable")
    (arm,) = await store.exchanges.llm_stats(search.id)
    assert (arm.candidates, arm.outcomes) == (1, {"candidate": 1, "unusable": 2})
    concluded = await store.exchanges.get(ids[1])
    assert (concluded.outcome, concluded.outcome_reason) == ("unusable", "no code\ufffd")
    assert concluded.concluded_at is not None
    assert (await store.exchanges.get(ids[0])).candidate == candidate


async def test_arms_are_told_apart_by_backend_and_strategy(store: Store) -> None:
    search = await stored_search(store)
    for ordinal, (backend, strategy) in enumerate((("a", "x"), ("a", "y"), ("b", "x"), ("a", "x"))):
        new = new_exchange(search.id, ordinal, backend=backend, strategy=strategy)
        id = (await store.exchanges.open(new)).id
        await store.exchanges.answer(id, REPLY, charge=await reserved(store, id))
        await store.exchanges.conclude(id, "duplicate")
    arms = await store.exchanges.llm_stats(search.id)
    found = [(arm.backend, arm.strategy, arm.calls, arm.usd, arm.outcomes) for arm in arms]
    assert found == [
        ("a", "x", 2, 0.5, {"duplicate": 2}),
        ("a", "y", 1, 0.25, {"duplicate": 1}),
        ("b", "x", 1, 0.25, {"duplicate": 1}),
    ]


async def test_exchanges_are_listed_a_page_at_a_time(store: Store) -> None:
    first, second = await stored_search(store), await stored_search(store)
    ids = [(await store.exchanges.open(new_exchange(first.id, ordinal))).id for ordinal in range(3)]
    other = (await store.exchanges.open(new_exchange(second.id, state=ExchangeState.WAITING))).id

    async def listed(**filters: object) -> list[str]:
        return [exchange.id for exchange in await store.exchanges.list(**filters)]  # type: ignore[arg-type]

    assert await listed() == [other, ids[2], ids[1], ids[0]]
    assert await listed(limit=2, beyond=ids[2]) == [ids[1], ids[0]]
    assert await listed(search=first.id, oldest_first=True) == ids
    assert await listed(search=first.id, oldest_first=True, beyond=ids[0]) == ids[1:]
    assert await listed(state=ExchangeState.WAITING) == [other]
    assert await listed(search=first.id, state=ExchangeState.WAITING) == []


async def test_what_is_unknown_is_not_found(store: Store) -> None:
    for call in (
        store.exchanges.get("x"),
        store.exchanges.claim("x", "ada", 1),
        store.exchanges.renew("x", "ada", 1),
        store.exchanges.release("x", "ada"),
        store.exchanges.answer("x", REPLY),
        store.exchanges.fail("x", "no"),
        store.exchanges.conclude("x", "unusable"),
    ):
        with pytest.raises(RecordNotFound):
            await call
    with pytest.raises(RecordConflict):
        await store.exchanges.open(new_exchange("no such search"))
