"""Queries about prompts and money, for the test that no query scans a table."""

from collections.abc import Awaitable, Callable

from archive.records import ExchangeState, LlmReply, NewCharge, SpendingLimits
from archive.store import Store
from tests.archive.samples import new_exchange

REPLY = LlmReply("text", "model", 1, 2, 0.5)
EXCHANGE = "an exchange"


async def _asked(store: Store, search: str) -> None:
    await store.exchanges.open(new_exchange(search, id=EXCHANGE, state=ExchangeState.WAITING))


async def _claimed(store: Store, search: str) -> None:
    await _asked(store, search)
    await store.exchanges.claim(EXCHANGE, "ada", 60)


async def _reserve(store: Store, search: str) -> None:
    await _asked(store, search)
    new = NewCharge("a charge", EXCHANGE, search, "local", "improve", 10, 0.5)
    await store.spending.reserve(new, SpendingLimits(usd=9.0), SpendingLimits(calls=9))


async def _claim_and_renew(store: Store, search: str) -> None:
    await _claimed(store, search)
    await store.exchanges.renew(EXCHANGE, "ada", 60)
    await store.exchanges.release(EXCHANGE, "ada")


async def _answer(store: Store, search: str) -> None:
    await _reserve(store, search)
    await store.exchanges.answer(EXCHANGE, REPLY, charge="a charge", claimed_by="ada")
    await store.exchanges.fail(EXCHANGE, "too late", forfeit="a charge")


async def _conclude(store: Store, search: str, candidate: str) -> None:
    await _asked(store, search)
    await store.exchanges.conclude(EXCHANGE, "candidate", candidate=candidate)


QUERIES: dict[str, Callable[[Store, str, str], Awaitable[object]]] = {
    "exchanges.open": lambda store, search, candidate: _asked(store, search),
    "exchanges.get": lambda store, search, candidate: store.exchanges.get(EXCHANGE),
    "exchanges.find": lambda store, search, candidate: store.exchanges.find(search, 0, 0, "digest"),
    "exchanges.claim": lambda store, search, candidate: _claim_and_renew(store, search),
    "exchanges.answer": lambda store, search, candidate: _answer(store, search),
    "exchanges.conclude": lambda store, search, candidate: _conclude(store, search, candidate),
    "exchanges.arms": lambda store, search, candidate: store.exchanges.llm_stats(search),
    "exchanges.list": lambda store, search, candidate: store.exchanges.list(beyond="x"),
    "exchanges.list of one state": lambda store, search, candidate: store.exchanges.list(
        state=ExchangeState.WAITING, oldest_first=True, beyond="x"
    ),
    "exchanges.list of a search": lambda store, search, candidate: store.exchanges.list(search=search),
    "exchanges.list of both": lambda store, search, candidate: store.exchanges.list(
        search=search, state=ExchangeState.ANSWERED, beyond="x"
    ),
    "spending.reserve": lambda store, search, candidate: _reserve(store, search),
    "spending.settle": lambda store, search, candidate: store.spending.settle("a charge", 3, 0.1),
    "spending.release": lambda store, search, candidate: store.spending.release("a charge"),
    "spending.forfeit": lambda store, search, candidate: store.spending.forfeit("a charge"),
    "spending.outstanding": lambda store, search, candidate: store.spending.outstanding(search),
    "spending.of_search": lambda store, search, candidate: store.spending.of_search(search),
}
