"""What was begun is found again, and what came of it is counted."""

from archive.records import Attempt, ExchangeState, LlmReply, OfferOutcome
from archive.store import Store
from tests.archive.samples import DEVICE, new_candidate, new_exchange, offer, stored_candidate, stored_search, unique_id

REPLY = LlmReply("text", "model", 1, 1, None)


async def test_what_was_asked_and_not_concluded_is_open(store: Store) -> None:
    search = (await stored_search(store)).id
    for ordinal, state in ((4, ExchangeState.ASKED), (2, ExchangeState.WAITING), (7, ExchangeState.ASKED)):
        await store.exchanges.open(new_exchange(search, ordinal, state=state))
    answered = await store.exchanges.open(new_exchange(search, 9))
    await store.exchanges.answer(answered.id, REPLY)
    failed = await store.exchanges.open(new_exchange(search, 11))
    await store.exchanges.fail(failed.id, "gone")
    refused = await store.exchanges.open(new_exchange(search, 12))
    await store.exchanges.answer(refused.id, LlmReply("no", "model", 1, 1, None, refused=True))
    assert await store.attempts.open(search) == [2, 4, 7, 9]
    await store.exchanges.conclude(answered.id, "unusable", "no_code")
    assert await store.attempts.open(search) == [2, 4, 7]
    assert [item.ordinal for item in await store.attempts.asked(search)] == [2, 4, 7, 9, 11, 12]


async def test_a_proposal_goes_on_with_the_latest_of_each_step(store: Store) -> None:
    search = (await stored_search(store)).id
    steps = [(0, "a"), (1, "b"), (1, "c"), (2, "d")]
    ids = {
        key: (await store.exchanges.open(new_exchange(search, 3, id=unique_id(), step=key[0], digest=key[1]))).id
        for key in steps
    }
    await store.exchanges.fail(ids[(2, "d")], "gone")
    assert [item.id for item in await store.attempts.begun(search, 3)] == [ids[(0, "a")], ids[(1, "c")]]
    assert await store.attempts.begun(search, 4) == []


async def test_a_candidate_is_found_by_its_ordinal_and_its_digest(store: Store) -> None:
    search = (await stored_search(store)).id
    id = await stored_candidate(store, search, 5)
    found = await store.candidates.get(id)
    assert await store.attempts.proposed(search, 5) == found == await store.attempts.equal(search, found.digest)
    assert await store.attempts.proposed(search, 6) is None and await store.attempts.equal(search, "x") is None


async def test_a_proposal_that_came_to_nothing_counts(store: Store) -> None:
    search = (await stored_search(store)).id
    await store.attempts.pass_over(search, 6, "llm")
    await store.attempts.pass_over(search, 2, "llm")
    counts = await store.candidates.count(search)
    progress = await store.elites.progress(search, DEVICE, 12)
    assert (counts.proposals, counts.candidates, progress.emitters["llm"]["proposals"]) == (7, 0, 2)


async def test_an_emitters_attempts_come_in_order(store: Store) -> None:
    search = (await stored_search(store)).id
    for ordinal, emitter in ((2, "llm"), (1, "tune"), (0, "llm")):
        await store.candidates.add(new_candidate(search, ordinal, id=f"c{ordinal}", emitter=emitter, parents=("p",)))
    await store.candidates.judge("c0", "correct", "", None, 1.5)
    first, second = await store.attempts.of(search, "llm")
    assert first == Attempt("c0", ("p",), "num_warps=4", "correct", 1.5)
    assert (second.id, second.outcome) == ("c2", None)


async def test_landings_say_what_each_added(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    given = ((1.0, "tune"), (1.5, "llm"), (1.2, "llm"), (2.0, "llm"))
    for objective, emitter in given:
        await store.elites.offer(offer(search, candidate, objective, emitter=emitter))
    await store.elites.offer(offer(search, candidate, 0.5, emitter="llm", cell=7))
    cell = offer(search, candidate).cell
    assert await store.attempts.offers(search, "llm") == [
        OfferOutcome(candidate, DEVICE, cell, 0.5),
        OfferOutcome(candidate, DEVICE, cell, None),
        OfferOutcome(candidate, DEVICE, cell, 0.5),
        OfferOutcome(candidate, DEVICE, 7, 0.5, filled=True),
    ]
