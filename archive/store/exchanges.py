"""Exchanges: prompts, their answers, and the outcomes of the answers."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Update, and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import Exchange, ExchangeState, ExchangeSummary, LlmReply, NewExchange, StrategyStatsRecord
from archive.store.engine import Database, select_record, upsert
from archive.store.llm_budgets import add_to_stats, forfeit_charge, settle_charge
from archive.tables import exchanges, llm_outcomes, llm_stats

KEY = ("search", "ordinal", "step", "digest")
"""Key of an exchange: the same prompt of the same proposal is asked once."""
PENDING = (ExchangeState.ASKED, ExchangeState.WAITING, ExchangeState.CLAIMED)
"""States of an exchange that waits for its answer."""
ENDED = (ExchangeState.ANSWERED, ExchangeState.REFUSED)
"""States that never change again."""


class ExchangeStore:
    """Exchanges: prompts and answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, new: NewExchange) -> Exchange:
        """Store a prompt. If its search, ordinal, step and digest are known, that exchange is returned instead.

        A failed one is opened again, for the backend that is given now.

        Raises:
            RecordConflict: If the search is unknown.
        """
        values = {**vars(new), **_BLANK, "opened_at": now()}
        asked = {name: value for name, value in values.items() if name not in ("id", *KEY)}
        here = and_(*(exchanges.c[name] == getattr(new, name) for name in KEY))
        async with self._database.write() as connection:
            await connection.execute(
                upsert(connection, exchanges)
                .values(values)
                .on_conflict_do_update(index_elements=KEY, set_=asked, where=exchanges.c.state == ExchangeState.FAILED)
            )
            row = (await connection.execute(select_record(exchanges, Exchange).where(here))).one()
        return Exchange(**row._asdict())

    async def get(self, id: str) -> Exchange:
        """Return one exchange.

        Raises:
            RecordNotFound: If there is none.
        """
        async with self._database.read() as connection:
            return await _get(connection, id)

    async def find(self, search: str, ordinal: int, step: int, digest: str) -> Exchange | None:
        """Return the exchange of a prompt within a proposal; None if it was never asked."""
        key = zip(KEY, (search, ordinal, step, digest), strict=True)
        statement = select_record(exchanges, Exchange).where(*(exchanges.c[name] == value for name, value in key))
        return await self._database.first(Exchange, statement)

    async def claim(self, id: str, claimed_by: str, lease_s: float) -> Exchange:
        """Claim a prompt, to answer it within some seconds. Its holder may claim it again.

        Raises:
            RecordNotFound: If there is no such exchange.
            RecordConflict: If another person holds it, or it does not wait for an answer.
        """
        values = {"state": ExchangeState.CLAIMED, "claimed_by": claimed_by, "lease_until": _in(lease_s)}
        return await self._change(id, _free_for(claimed_by), values, "be claimed")

    async def renew(self, id: str, claimed_by: str, lease_s: float) -> Exchange:
        """Extend the claim on a prompt to some seconds from now.

        Raises:
            RecordNotFound: If there is no such exchange.
            RecordConflict: If `claimed_by` holds it no longer.
        """
        return await self._change(id, _held_by(claimed_by), {"lease_until": _in(lease_s)}, "be renewed")

    async def release(self, id: str, claimed_by: str) -> Exchange:
        """Release a claimed prompt, so that others may claim it.

        Raises:
            RecordNotFound: If there is no such exchange.
            RecordConflict: If `claimed_by` does not hold it.
        """
        values = {"state": ExchangeState.WAITING, "claimed_by": None, "lease_until": None}
        return await self._change(id, _held_by(claimed_by), values, "be released")

    async def answer(
        self, id: str, reply: LlmReply, *, charge: str | None = None, claimed_by: str | None = None
    ) -> Exchange:
        """Store an answer, and settle its cost in the same transaction. The first answer stays.

        Args:
            id: Id of the exchange. One that has failed still takes its answer: it was paid for.
            reply: The answer.
            charge: The charge to settle.
            claimed_by: Name of the person who answers a waiting prompt; None for a backend that was asked.

        Raises:
            RecordNotFound: If there is no such exchange.
            RecordConflict: If another person holds the prompt, or it has another answer by now.
        """
        values = {name: value for name, value in vars(reply).items() if name != "refused"}
        state = ExchangeState.REFUSED if reply.refused else ExchangeState.ANSWERED
        allowed = exchanges.c.state.not_in(ENDED) if claimed_by is None else _free_for(claimed_by)
        statement = _one(id).where(allowed)
        values |= {"state": state, "answered_at": now(), "lease_until": None}
        if claimed_by is not None:
            values["claimed_by"] = claimed_by
        async with self._database.write() as connection:
            changed = (await connection.execute(statement.values(values))).rowcount
            exchange = await _get(connection, id)
            if charge is not None:
                # Also for an answer that came before the charge: a person can be quicker than this process.
                tokens = exchange.input_tokens + exchange.output_tokens
                await settle_charge(connection, charge, tokens, exchange.cost_usd)
        same = exchange.state is state and exchange.text == reply.text and exchange.claimed_by == claimed_by
        if not changed and claimed_by is not None and not same:
            raise RecordConflict(f"{_whereabouts(exchange)} and cannot be answered by '{claimed_by}'")
        return exchange

    async def fail(self, id: str, reason: str, *, forfeit: str | None = None) -> Exchange:
        """End an exchange without an answer. An answer that came meanwhile stays.

        Args:
            id: Id of the exchange.
            reason: Reason, for people.
            forfeit: Charge that counts as spent, because the result of the call is unknown.

        Raises:
            RecordNotFound: If there is no such exchange.
        """
        statement = _one(id).where(exchanges.c.state.in_(PENDING))
        values = {"state": ExchangeState.FAILED, "reason": reason, "claimed_by": None, "lease_until": None}
        async with self._database.write() as connection:
            await connection.execute(statement.values(values))
            if forfeit is not None:
                await forfeit_charge(connection, forfeit)
            return await _get(connection, id)

    async def conclude(
        self, id: str, outcome: str, reason: str = "", candidate: str | None = None, change: str = ""
    ) -> bool:
        """Set the outcome of an answer. The first outcome stays.

        Args:
            id: Id of the exchange.
            outcome: A word, such as `candidate`, `unusable` or `duplicate`; counted for the backend and strategy.
            reason: Reason in words.
            candidate: Id of the candidate made from it.
            change: Model's own line on what it changed.

        Returns:
            True if this was the first outcome.

        Raises:
            RecordNotFound: If there is no such exchange.
            RecordConflict: If the candidate is unknown.
        """
        statement = (
            _one(id)
            .where(exchanges.c.outcome.is_(None))
            .values(outcome=outcome, outcome_reason=reason, candidate=candidate, change=change, concluded_at=now())
            .returning(exchanges.c.search, exchanges.c.backend, exchanges.c.strategy)
        )
        async with self._database.write() as connection:
            row = (await connection.execute(statement)).one_or_none()
            if row is None:
                await _get(connection, id)
                return False
            stats = row._asdict()
            counted = upsert(connection, llm_outcomes).values(**stats, outcome=outcome, count=1)
            await connection.execute(
                counted.on_conflict_do_update(
                    index_elements=[*stats, "outcome"], set_={"count": llm_outcomes.c["count"] + 1}
                )
            )
            await add_to_stats(
                connection, row.search, row.backend, row.strategy, {"candidates": int(candidate is not None)}
            )
            return True

    async def llm_stats(self, search: str) -> list[StrategyStatsRecord]:
        """Return the results of calls by backend and strategy."""
        spent = [llm_stats.c[name] for name in _STRATEGY]
        counts = select(
            llm_outcomes.c.backend, llm_outcomes.c.strategy, llm_outcomes.c.outcome, llm_outcomes.c["count"]
        )
        async with self._database.read() as connection:
            rows = await connection.execute(
                select(*spent).where(llm_stats.c.search == search).order_by(llm_stats.c.backend, llm_stats.c.strategy)
            )
            found = {(row.backend, row.strategy): StrategyStatsRecord(**row._asdict()) for row in rows}
            came_to: dict[tuple[str, str], dict[str, int]] = {}
            for backend, strategy, outcome, count in await connection.execute(
                counts.where(llm_outcomes.c.search == search)
            ):
                came_to.setdefault((backend, strategy), {})[outcome] = count
        return [replace(stats, outcomes=came_to.get(key, {})) for key, stats in found.items()]

    async def _change(self, id: str, allowed: ColumnElement[bool], values: dict[str, Any], what: str) -> Exchange:
        async with self._database.write() as connection:
            changed = (await connection.execute(_one(id).where(allowed).values(values))).rowcount
            exchange = await _get(connection, id)
        if not changed:
            raise RecordConflict(f"{_whereabouts(exchange)} and cannot {what}")
        return exchange

    # Last, because from here on `list` means this method.
    async def list(
        self,
        *,
        search: str | None = None,
        state: ExchangeState | None = None,
        limit: int = 50,
        beyond: str | None = None,
        oldest_first: bool = False,
    ) -> list[ExchangeSummary]:
        """Return exchanges without their texts, newest first by default.

        Args:
            search: Only those of this search.
            state: Only those in this state.
            limit: Maximum number of exchanges.
            beyond: Only those after the exchange of this id, in the requested order.
            oldest_first: Begin with the oldest.
        """
        order = exchanges.c.id.asc() if oldest_first else exchanges.c.id.desc()
        statement = select_record(exchanges, ExchangeSummary).order_by(order).limit(limit)
        if search is not None:
            statement = statement.where(exchanges.c.search == search)
        if state is not None:
            statement = statement.where(exchanges.c.state == state)
        if beyond is not None:
            statement = statement.where(exchanges.c.id > beyond if oldest_first else exchanges.c.id < beyond)
        return await self._database.all(ExchangeSummary, statement)


_BLANK: dict[str, Any] = {
    "reason": "",
    "claimed_by": None,
    "lease_until": None,
    "text": None,
    "model": "",
    "input_tokens": 0,
    "output_tokens": 0,
    "cost_usd": None,
    "truncated": False,
    "outcome": None,
    "outcome_reason": "",
    "change": "",
    "candidate": None,
    "answered_at": None,
    "concluded_at": None,
}
"""An exchange before its answer."""
_STRATEGY = ("search", "backend", "strategy", "calls", "tokens", "usd", "unpriced", "candidates")


def _one(id: str) -> Update:
    return update(exchanges).where(exchanges.c.id == id)


def _in(seconds: float) -> datetime:
    return now() + timedelta(seconds=seconds)


def _held_by(claimed_by: str) -> ColumnElement[bool]:
    return and_(exchanges.c.state == ExchangeState.CLAIMED, exchanges.c.claimed_by == claimed_by)


def _free_for(claimed_by: str) -> ColumnElement[bool]:
    """Match prompts that wait, are the caller's own, or were claimed under a lease that has lapsed."""
    lapsed = or_(exchanges.c.claimed_by == claimed_by, exchanges.c.lease_until < now())
    return or_(exchanges.c.state == ExchangeState.WAITING, and_(exchanges.c.state == ExchangeState.CLAIMED, lapsed))


def _whereabouts(exchange: Exchange) -> str:
    by = f" by '{exchange.claimed_by}'" if exchange.state is ExchangeState.CLAIMED else ""
    return f"prompt {exchange.id} is {exchange.state.value}{by}"


async def _get(connection: AsyncConnection, id: str) -> Exchange:
    row = (await connection.execute(select_record(exchanges, Exchange).where(exchanges.c.id == id))).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no prompt {id}")
    return Exchange(**row._asdict())
