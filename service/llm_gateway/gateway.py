"""LLM gateway for emitters: it reserves the cost, applies limits, stores answers and pays nothing twice.

An exchange is one prompt of one proposal. It is stored before the first call. Each call has its own charge: settled
with the answer, released if the call certainly cost nothing, and otherwise counted in full. A call that may have been
charged is not repeated.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import structlog
from uuid6 import uuid7

from archive.errors import DatabaseUnavailable
from archive.records import (
    BudgetRecord,
    Exchange,
    ExchangeState,
    LlmReply,
    NewCharge,
    NewExchange,
    SpendingLimits,
)
from archive.store import Store
from service.emitters.llm.thoughts import CUT_IN_THOUGHT
from service.errors import InvalidInput
from service.llm import (
    BACKENDS,
    Backend,
    BackendError,
    BudgetExhausted,
    Completion,
    LlmAnswer,
    LlmPrompt,
    LlmRefused,
    PermanentFailure,
    Purpose,
    TransientFailure,
    digest,
)
from service.llm.options import clean
from service.llm_gateway.agent_passes import AgentPasses
from service.llm_gateway.backends import MOST_REST_S, BackendLimiter, BackendPool
from service.llm_gateway.manual import QUEUED, ManualPrompts, completion_of
from service.llm_gateway.schemas import BackendStatus
from service.requests import LlmSettings
from service.tasks import end

ATTEMPTS = 6
"""Maximum calls per exchange, if none was charged: enough for about a minute of a vendor's trouble."""
FIRST_WAIT_S, MOST_WAIT_S = 1.0, 60.0
"""Bounds of the wait before a repeated call, drawn uniformly from zero to a limit that doubles (full jitter, as in
M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015)."""
OPENINGS = 8
"""Maximum exchanges opened concurrently: more would only wait for the archive and block the event loop."""
KEEP_TRIES, KEEP_PAUSE_S = 30, 2.0
"""Attempts to store a paid answer while the archive does not answer, and seconds between them."""
STOP_S = 20.0
"""Seconds that calls under way get at shutdown to deliver paid answers."""
NOTHING_SAID = Completion("", "", 0, 0, 0.0)
"""Answer of a vendor that refuses a prompt before a model sees it: a call that costs nothing."""
BROKE_OFF = "the call was interrupted; it may have been charged"

T = TypeVar("T")
log = structlog.get_logger(__name__)


class LlmGateway:
    """The `LlmClient` of one coordinator.

    Attributes:
        manual: Prompts that a person or program answers.
        backends: Backends and their limits.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        """Read `backends.toml` in the data folder.

        Raises:
            InvalidInput: If something in it is invalid; names the field.
        """
        self.manual = ManualPrompts(store)
        self.backends = BackendPool(folder, self.manual.wait_for, AgentPasses(store, folder).admit)
        self._store = store
        self._running: dict[str, asyncio.Task[LlmAnswer]] = {}
        self._sent: set[str] = set()
        self._recovered: set[str] = set()
        self._openings = asyncio.Semaphore(OPENINGS)
        self._cancelled = False

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Get an answer to a prompt, as `service.llm.base.LlmClient` defines.

        If the caller is cancelled, a call under way continues and its answer is stored.
        """
        async with self._openings:
            if self._cancelled:
                raise TransientFailure("the service is stopping")
            found, call = await self._open(prompt, purpose, backend)
        if call is None:
            return LlmAnswer(found.id, found.backend, completion_of(found))
        return await self._join(found.id, call)

    def require(self, terms: LlmSettings) -> None:
        """Check the LLM settings of a search before it starts.

        Raises:
            InvalidInput: If a backend or a price that dollars need is unknown, or if no backend takes calls.
        """
        known = {status.name: status for status in self.backends.statuses()}
        for field, names, submits in (("llm.backends", terms.backends, False), ("llm.agents", terms.agents, True)):
            for name in names:
                if name not in known:
                    detail = f"'{name}' is not a backend; {self.backends.file} has: {', '.join(known)}"
                    raise InvalidInput(detail, field)
                _require_fitting(known[name], terms, field, submits=submits)
            if names and not self.available(names):
                said = "; ".join(f"'{name}' takes no calls: {known[name].disabled_reason}" for name in names)
                raise InvalidInput(f"{said}; see reef backends list", field)

    def available(self, backends: Sequence[str]) -> tuple[str, ...]:
        """Return those of some backends that take calls now."""
        usable = {status.name for status in self.backends.statuses() if status.disabled_reason is None}
        return tuple(name for name in backends if name in usable)

    def require_open(self, backends: Sequence[str]) -> None:
        """Check that one of some backends takes calls, as `service.llm.base.LlmClient` defines."""
        self.backends.choose(backends)

    async def cancel(self) -> None:
        """Cancel all calls at once, and take no more. A call under way may have been charged, so it counts in full."""
        self._cancelled = True
        await end(list(self._running.values()))

    async def close(self) -> None:
        """Store paid answers, within `STOP_S`; prompts for people or programs go on waiting."""
        await end([task for id, task in self._running.items() if id not in self._sent])
        under_way = list(self._running.values())
        if under_way:
            await asyncio.wait(under_way, timeout=STOP_S)
        await end(under_way)
        await self.backends.close()

    async def _open(
        self, prompt: LlmPrompt, purpose: Purpose, backend: str | None
    ) -> "tuple[Exchange, asyncio.Task[LlmAnswer] | None]":
        """Return the exchange of a prompt, and the task that carries it; None if the exchange has ended."""
        prompt = LlmPrompt(clean(prompt.system), clean(prompt.user), prompt.max_tokens)
        await self._recover(purpose.search)
        key = (purpose.search, purpose.ordinal, purpose.step, digest(prompt))
        found = await self._store.exchanges.find(*key)
        if found is not None and found.state in (ExchangeState.ANSWERED, ExchangeState.REFUSED):
            return found, None
        if found is not None and found.id in self._running:
            return found, self._running[found.id]
        terms = await self._terms(purpose.search)
        limiter = self._limiter_of(terms, found.backend if found is not None and found.state in QUEUED else backend)
        if found is None or found.state is ExchangeState.FAILED:
            await self._require_room(limiter, terms, purpose.search, _need(limiter, prompt))
        exchange = await self._store.exchanges.open(_new_exchange(limiter, prompt, purpose, key[3]))
        if exchange.id not in self._running:
            task = asyncio.create_task(self._carry(limiter, exchange, prompt, terms), name=f"exchange {exchange.id}")
            self._running[exchange.id] = task
            task.add_done_callback(lambda done: self._ended(exchange.id, done))
        return exchange, self._running[exchange.id]

    async def _terms(self, search: str) -> LlmSettings:
        stored = (await self._store.searches.get(search)).llm
        if stored is None:
            raise PermanentFailure("this search may not ask models: it was started without `llm`")
        return LlmSettings.model_validate(stored)

    def _limiter_of(self, terms: LlmSettings, wanted: str | None) -> BackendLimiter:
        if wanted is None:
            return self.backends.choose(terms.backends)
        limiter = self.backends.get(wanted) if wanted in (*terms.backends, *terms.agents) else None
        if limiter is None:
            raise PermanentFailure(f"backend '{wanted}' is not one of this search's, or no longer configured")
        limiter.require_open()
        return limiter

    async def _join(self, id: str, task: "asyncio.Task[LlmAnswer]") -> LlmAnswer:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise TransientFailure("the service stopped before the answer arrived") from None
            if id not in self._sent:
                task.cancel()
            raise

    def _ended(self, id: str, task: "asyncio.Task[LlmAnswer]") -> None:
        self._running.pop(id, None)
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not isinstance(failure, BackendError):
            log.error("exchange failed", exchange=id, exc_info=failure)

    async def _carry(
        self, limiter: BackendLimiter, exchange: Exchange, prompt: LlmPrompt, terms: LlmSettings
    ) -> LlmAnswer:
        """Call until there is an answer or a final failure."""
        need = _need(limiter, prompt)
        attempt = 0
        while True:
            attempt += 1
            try:
                async with limiter.place(need.tokens or 0) as backend:
                    completion = await self._call(limiter, backend, exchange, prompt, terms)
                return LlmAnswer(exchange.id, limiter.name, completion)
            except TransientFailure as failure:
                wait_s = None if limiter.waits else _wait_s(failure, attempt)
                if failure.retry_after_s is not None:
                    limiter.rest(failure.retry_after_s)
                if wait_s is None:
                    await self._store.exchanges.fail(exchange.id, failure.detail)
                    raise
                log.info(
                    "repeating call", exchange=exchange.id, backend=limiter.name, wait_s=wait_s, reason=failure.detail
                )
                await asyncio.sleep(wait_s)
            except BackendError as failure:
                await self._store.exchanges.fail(exchange.id, failure.detail)
                raise

    async def _call(
        self, limiter: BackendLimiter, backend: Backend, exchange: Exchange, prompt: LlmPrompt, terms: LlmSettings
    ) -> Completion:
        """Make one call. Its charge is settled, released or counted in every case.

        The charge of a manual prompt has the exchange's id, so that all processes agree on it.
        """
        sent, accounted = False, limiter.waits  # a manual prompt outlives this process and keeps its reservation
        id = exchange.id if limiter.waits else str(uuid7())
        try:
            await self._reserve(id, limiter, exchange, prompt, terms)
            if not limiter.waits:
                sent = True
                self._sent.add(exchange.id)
            completion = await backend.complete(prompt, exchange.id)
            await _keep(lambda: self._store.exchanges.answer(exchange.id, _reply(completion), charge=id))
            accounted = True
            _take_note(limiter, prompt, completion)
            return completion
        except LlmRefused as refusal:
            reply = _reply(refusal.completion or NOTHING_SAID, refused=refusal.detail)
            await _keep(lambda: self._store.exchanges.answer(exchange.id, reply, charge=id))
            accounted = True
            if not limiter.waits:
                limiter.failed(refusal.detail)
            raise
        except (TransientFailure, PermanentFailure) as failure:
            if isinstance(failure, PermanentFailure):
                limiter.disable(failure.detail)
            elif failure.paid and not limiter.waits:
                limiter.failed(failure.detail)
            sent, accounted = failure.paid, False
            raise
        finally:
            self._sent.discard(exchange.id)
            if not accounted:
                await _keep(lambda: self._account_unanswered(exchange, id, sent=sent))

    async def _account_unanswered(self, exchange: Exchange, charge: str, *, sent: bool) -> None:
        if sent:
            await self._store.exchanges.fail(exchange.id, BROKE_OFF, forfeit=charge)
        else:
            await self._store.spending.release(charge)

    async def _reserve(
        self, id: str, limiter: BackendLimiter, exchange: Exchange, prompt: LlmPrompt, terms: LlmSettings
    ) -> None:
        """Reserve the maximum cost of a call.

        Raises:
            BudgetExhausted: If the budget does not cover it.
        """
        need = _need(limiter, prompt)
        new = NewCharge(
            id=id,
            exchange=exchange.id,
            search=exchange.search,
            backend=limiter.name,
            strategy=exchange.strategy,
            tokens=need.tokens or 0,
            usd=need.usd,
        )
        if await self._store.spending.reserve(new, _limits(terms), limiter.limits) is None:
            await self._require_room(limiter, terms, exchange.search, need)
            raise BudgetExhausted("the search has no budget left for this call")

    async def _require_room(
        self, limiter: BackendLimiter, terms: LlmSettings, search: str, need: SpendingLimits
    ) -> None:
        """Check the budget before anything is stored.

        Raises:
            BudgetExhausted: If it does not cover the call; names the limit.
        """
        spent = {budget.backend: budget for budget in await self._store.spending.of_search(search)}
        for backend, limits in (("", _limits(terms)), (limiter.name, limiter.limits)):
            lacking = _lacking(spent.get(backend), limits, need)
            if lacking:
                raise BudgetExhausted(f"{f'at {backend!r}' if backend else 'in total'} {lacking}")

    async def _recover(self, search: str) -> None:
        """Count calls that an earlier process left open as spent: they may have been charged."""
        if search in self._recovered:
            return
        self._recovered.add(search)
        for charge in await self._store.spending.outstanding(search):
            exchange = await self._store.exchanges.get(charge.exchange)
            if exchange.id in self._running or exchange.state in QUEUED:
                continue
            await self._store.exchanges.fail(exchange.id, BROKE_OFF, forfeit=charge.id)


def _require_fitting(status: BackendStatus, terms: LlmSettings, field: str, *, submits: bool) -> None:
    """Check that a backend may be named in a field of the LLM settings.

    Raises:
        InvalidInput: If it is an agent where models are named or the reverse, or lacks a price that dollars need.
    """
    if BACKENDS[status.kind].submits is not submits:
        raise InvalidInput(f"'{status.name}' is {'no' if submits else 'an'} agent ({status.kind})", field)
    if terms.usd is not None and status.price is None:
        raise InvalidInput(f"the price of '{status.name}' is unknown; set it in backends.toml", "llm.usd")


async def _keep(write: Callable[[], Awaitable[T]]) -> T:
    """Store a paid answer, and repeat while the archive does not answer.

    Raises:
        DatabaseUnavailable: If it still does not answer after `KEEP_TRIES` attempts.
    """
    for _ in range(KEEP_TRIES - 1):
        try:
            return await write()
        except DatabaseUnavailable as error:
            log.error("the archive cannot store an answer; trying again", detail=str(error))
            await asyncio.sleep(KEEP_PAUSE_S)
    return await write()


def _limits(terms: LlmSettings) -> SpendingLimits:
    return SpendingLimits(terms.calls, terms.tokens, terms.usd)


def _need(limiter: BackendLimiter, prompt: LlmPrompt) -> SpendingLimits:
    """Return the most that one call can use: a token per byte of the prompt, and the longest answer allowed."""
    input_tokens = limiter.options.billed_prompt(prompt.system, prompt.user)
    output_tokens = limiter.options.billed_answer(prompt.max_tokens)
    usd = None if limiter.price is None else limiter.price.of(input_tokens, output_tokens)
    return SpendingLimits(calls=1, tokens=input_tokens + output_tokens, usd=usd)


def _take_note(limiter: BackendLimiter, prompt: LlmPrompt, completion: Completion) -> None:
    """Count an answer for or against its backend; one that bills more than was reserved is not asked again."""
    if limiter.waits:
        return
    if completion.text.strip():
        limiter.answered()
    else:
        limiter.failed(CUT_IN_THOUGHT if completion.truncated else "the answer is empty")
    most = limiter.options.billed_answer(prompt.max_tokens)
    reserved, billed = _need(limiter, prompt).tokens or 0, completion.input_tokens + completion.output_tokens
    if completion.output_tokens > most or billed > reserved:
        limiter.disable(
            f"it billed {completion.output_tokens} tokens for an answer of at most {most}, and {billed} in all where "
            f"{reserved} were reserved, so no limit would hold; if it bills thoughts beside max_tokens, or a prompt of "
            "its own, set reasoning_tokens to their maximum"
        )


def _lacking(budget: BudgetRecord | None, limits: SpendingLimits, need: SpendingLimits) -> str:
    """Describe the limit that a call would exceed; empty if there is none."""
    for name in ("calls", "tokens", "usd"):
        limit, wanted = getattr(limits, name), getattr(need, name)
        spent = getattr(budget, name) if budget else 0
        if limit is None:
            continue
        if wanted is None:
            return "dollars are limited, but the price of this backend is unknown; set it in backends.toml"
        if spent + wanted > limit:
            return f"{spent:.12g} of {limit:.12g} {name} are spent or reserved, and this call may need {wanted:.12g}"
    return ""


def _wait_s(failure: TransientFailure, attempt: int) -> float | None:
    """Return the seconds to wait before a repeated call; None if the call must not be repeated."""
    if failure.paid or attempt >= ATTEMPTS or (failure.retry_after_s or 0.0) > MOST_REST_S:
        return None
    jitter_s = random.uniform(0.0, min(MOST_WAIT_S, FIRST_WAIT_S * 2**attempt))
    return (failure.retry_after_s or 0.0) + jitter_s


def _new_exchange(limiter: BackendLimiter, prompt: LlmPrompt, purpose: Purpose, key: str) -> NewExchange:
    return NewExchange(
        id=str(uuid7()),
        digest=key,
        backend=limiter.name,
        system=prompt.system,
        user=prompt.user,
        max_tokens=prompt.max_tokens,
        state=ExchangeState.WAITING if limiter.waits else ExchangeState.ASKED,
        **vars(purpose),
    )


def _reply(completion: Completion, *, refused: str | None = None) -> LlmReply:
    return LlmReply(**vars(completion), refused=refused is not None, reason=refused or "")
