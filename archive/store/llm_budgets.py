"""Cost of calls to models: reserved before a call, settled after it.

A reservation is a conditional statement for the search and one for the backend, in one transaction that is rolled back
if either refuses: the database decides, for any number of concurrent calls. Each call is a row of its own, so that a
reservation outlives its process.
"""

from typing import Any

from sqlalchemy import and_, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.records import BudgetRecord, Charge, ChargeState, NewCharge, SpendingLimits
from archive.store.engine import Database, select_record, upsert
from archive.tables import RESERVED, charges, llm_budgets, llm_stats

SEARCH = ""
"""Placeholder for a backend's name in the budget of a search as a whole."""
OPEN = (ChargeState.RESERVED, ChargeState.FORFEITED)
"""States that an answer may still settle: it may come after the call was given up."""


class _BudgetRefused(Exception):
    """One of the two budgets refuses a charge; rolls back the charge to the other."""


class BudgetStore:
    """Budgets of searches, and the charges to them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, new: NewCharge, search: SpendingLimits, backend: SpendingLimits) -> Charge | None:
        """Reserve the maximum cost of a call. Idempotent by id.

        Args:
            new: The call. If its price is unknown, a limit in dollars refuses it.
            search: Limits of the search.
            backend: Limits of this backend within the search.

        Returns:
            The charge, or None if it would exceed a limit.

        Raises:
            RecordConflict: If the exchange is unknown.
        """
        charge = Charge(**vars(new))
        try:
            async with self._database.write() as connection:
                earlier = await _find(connection, new.id)
                if earlier is not None:
                    return earlier
                # Always the search before the backend, so that two reservations never deadlock.
                await _take(connection, charge, SEARCH, search)
                await _take(connection, charge, new.backend, backend)
                await connection.execute(charges.insert().values({**vars(charge), "created_at": now()}))
        except _BudgetRefused:
            return None
        return charge

    async def settle(self, id: str, tokens: int, usd: float | None) -> None:
        """Replace a reservation by the amount spent; `usd` is None if unknown. The first call counts."""
        async with self._database.write() as connection:
            await settle_charge(connection, id, tokens, usd)

    async def release(self, id: str) -> None:
        """Release the reservation of a call that cost nothing."""
        async with self._database.write() as connection:
            await _move(connection, id, ChargeState.FREED, 0, 0.0)

    async def forfeit(self, id: str) -> None:
        """Count the whole reservation as spent, because the result of the call is unknown."""
        async with self._database.write() as connection:
            await forfeit_charge(connection, id)

    async def outstanding(self, search: str) -> list[Charge]:
        """Return the charges of a search that are still reserved, oldest first."""
        statement = select_record(charges, Charge).where(charges.c.search == search, RESERVED).order_by(charges.c.id)
        return await self._database.all(Charge, statement)

    async def of_search(self, search: str) -> list[BudgetRecord]:
        """Return a search's spending, reservations included: as a whole, then per backend by name."""
        statement = (
            select_record(llm_budgets, BudgetRecord)
            .where(llm_budgets.c.search == search)
            .order_by(llm_budgets.c.backend)
        )
        return await self._database.all(BudgetRecord, statement)


async def settle_charge(connection: AsyncConnection, id: str, tokens: int, usd: float | None) -> None:
    """Settle a charge in the caller's transaction, as `BudgetStore.settle` does."""
    await _move(connection, id, ChargeState.SETTLED, tokens, usd)


async def forfeit_charge(connection: AsyncConnection, id: str) -> None:
    """Forfeit a charge in the caller's transaction, as `BudgetStore.forfeit` does."""
    charge = await _find(connection, id)
    if charge is not None:
        await _move(connection, id, ChargeState.FORFEITED, charge.tokens, charge.usd)


async def _find(connection: AsyncConnection, id: str) -> Charge | None:
    row = (await connection.execute(select_record(charges, Charge).where(charges.c.id == id))).one_or_none()
    return None if row is None else Charge(**row._asdict())


async def _take(connection: AsyncConnection, charge: Charge, backend: str, limits: SpendingLimits) -> None:
    """Add a charge to a budget if its limits allow.

    Raises:
        _BudgetRefused: If they do not.
    """
    wanted: dict[str, Any] = {"calls": 1, "tokens": charge.tokens, "usd": charge.usd or 0.0}
    allowed = {"calls": limits.calls, "tokens": limits.tokens, "usd": limits.usd}
    priceless = charge.usd is None and limits.usd is not None
    if priceless or any(limit is not None and wanted[name] > limit for name, limit in allowed.items()):
        raise _BudgetRefused
    kept = {f"{name}_limit": limit for name, limit in allowed.items()}
    unpriced = int(charge.usd is None)
    statement = upsert(connection, llm_budgets).values(
        search=charge.search, backend=backend, **wanted, unpriced=unpriced, **kept
    )
    # Not `spent + wanted <= limit`: a sum of dollars no longer has the column type that converts the limit to
    # billionths.
    fits = and_(
        true(), *(llm_budgets.c[name] <= limit - wanted[name] for name, limit in allowed.items() if limit is not None)
    )
    statement = statement.on_conflict_do_update(
        index_elements=["search", "backend"],
        set_={
            **{name: llm_budgets.c[name] + amount for name, amount in wanted.items()},
            "unpriced": llm_budgets.c.unpriced + unpriced,
            **kept,
        },
        where=fits,
    )
    if await connection.scalar(statement.returning(llm_budgets.c.calls)) is None:
        raise _BudgetRefused


async def _move(connection: AsyncConnection, id: str, state: ChargeState, tokens: int, usd: float | None) -> None:
    """Move a charge to a state with its final cost, and correct the budgets and statistics by the difference."""
    charge = await _find(connection, id)
    if charge is None or charge.state not in (OPEN if state is ChargeState.SETTLED else OPEN[:1]):
        return
    statement = update(charges).where(charges.c.id == id, charges.c.state == charge.state)
    if not (await connection.execute(statement.values(state=state, tokens=tokens, usd=usd))).rowcount:
        return
    freed = state is ChargeState.FREED
    change = {
        "calls": -1 if freed else 0,
        "tokens": tokens - charge.tokens,
        "usd": (usd or 0.0) - (charge.usd or 0.0),
        "unpriced": int(usd is None) - int(charge.usd is None),
    }
    for backend in (SEARCH, charge.backend):
        budget = update(llm_budgets).where(llm_budgets.c.search == charge.search, llm_budgets.c.backend == backend)
        await connection.execute(budget.values({name: llm_budgets.c[name] + amount for name, amount in change.items()}))
    if freed:
        return
    if charge.state is ChargeState.RESERVED:
        change = {"calls": 1, "tokens": tokens, "usd": usd or 0.0, "unpriced": int(usd is None)}
    await add_to_stats(connection, charge.search, charge.backend, charge.strategy, change)


async def add_to_stats(
    connection: AsyncConnection, search: str, backend: str, strategy: str, change: dict[str, Any]
) -> None:
    """Add to the counts of a backend and strategy, in the caller's transaction."""
    start: dict[str, Any] = {"calls": 0, "tokens": 0, "usd": 0.0, "unpriced": 0, "candidates": 0, **change}
    statement = upsert(connection, llm_stats).values(search=search, backend=backend, strategy=strategy, **start)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["search", "backend", "strategy"],
            set_={name: llm_stats.c[name] + amount for name, amount in change.items()},
        )
    )


__all__ = ["SEARCH", "BudgetStore", "add_to_stats", "forfeit_charge", "settle_charge"]
