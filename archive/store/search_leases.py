"""Leases: which coordinator runs a search. Time is the database's, so that coordinators' clocks need not agree."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Double, Select, cast, delete, exists, func, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.errors import RecordConflict
from archive.records import SearchFingerprint, SearchLease, SearchState
from archive.store.engine import Database, select_record, upsert
from archive.tables import coordinators, counters, search_leases, searches

OPEN = (SearchState.PREPARING, SearchState.RUNNING, SearchState.PAUSED)
"""States of searches that a coordinator has to run."""
TO_RUN = or_(searches.c.state.in_(OPEN), searches.c.finishing)
"""Condition of the searches that a coordinator has to run: the open ones, and done ones with work that is left."""
UNIX_EPOCH_DAY = 2440587.5
"""1970-01-01 as a Julian day, which is what SQLite's clock counts."""
DAY_S = 86_400.0


class SearchLeaseStore:
    """Leases of coordinators on searches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(
        self, holder: str, term_s: float, *, most: int, search: str | None = None, by_force: bool = False
    ) -> list[SearchLease]:
        """Take unfinished searches without a lease, in one conditional statement.

        Args:
            holder: Id of the coordinator that takes them.
            term_s: Seconds until the leases lapse, unless renewed.
            most: Maximum number of searches taken.
            search: Only this one.
            by_force: Take searches of other holders too. For the only coordinator, whose former process may not have
                released them.

        Returns:
            The new leases, without those that the holder had already.
        """
        async with self._database.write() as connection:
            clock = _clock(connection)
            chosen = _untaken(holder, clock, term_s, by_force=by_force).limit(most)
            if search is not None:
                chosen = chosen.where(searches.c.id == search)
            statement = upsert(connection, search_leases).from_select(["search", "holder", "fence", "until_s"], chosen)
            statement = statement.on_conflict_do_update(
                index_elements=["search"],
                set_={
                    "holder": statement.excluded.holder,
                    "fence": search_leases.c.fence + 1,
                    "until_s": statement.excluded.until_s,
                },
                where=search_leases.c.holder != holder if by_force else search_leases.c.until_s <= clock,
            )
            rows = await connection.execute(statement.returning(*_columns()))
            return [SearchLease(**row._asdict()) for row in rows]

    async def attend(self, holder: str, term_s: float) -> int:
        """Record that a coordinator is alive. Returns its fair share of unfinished searches, rounded up.

        Args:
            holder: Id of the coordinator.
            term_s: Seconds until it counts as gone, unless it attends again.
        """
        async with self._database.write() as connection:
            now_s = await connection.scalar(select(_clock(connection))) or 0.0
            await connection.execute(delete(coordinators).where(coordinators.c.until_s <= now_s))
            statement = upsert(connection, coordinators).values(holder=holder, until_s=now_s + term_s)
            again = {"until_s": statement.excluded.until_s}
            await connection.execute(statement.on_conflict_do_update(index_elements=["holder"], set_=again))
            live = select(func.count()).where(coordinators.c.until_s > now_s)
            present = await connection.scalar(live) or 1
            unfinished = await connection.scalar(select(func.count()).where(TO_RUN)) or 0
        return -(-unfinished // present)

    async def leave(self, holder: str) -> None:
        """Remove a coordinator at once. Idempotent."""
        async with self._database.write() as connection:
            await connection.execute(delete(coordinators).where(coordinators.c.holder == holder))

    async def renew(self, holder: str, term_s: float) -> list[SearchLease]:
        """Renew all leases of a holder, in one statement, and return them.

        A lapsed lease that no other coordinator took still belongs to the holder.
        """
        async with self._database.write() as connection:
            statement = (
                update(search_leases)
                .where(search_leases.c.holder == holder)
                .values(until_s=_clock(connection) + term_s)
            )
            rows = await connection.execute(statement.returning(*_columns()))
            return [SearchLease(**row._asdict()) for row in rows]

    async def release(self, holder: str, searches: Collection[str]) -> None:
        """Release searches, so that other coordinators may take them at once. Idempotent."""
        mine = (search_leases.c.holder == holder, search_leases.c.search.in_(searches))
        async with self._database.write() as connection:
            await connection.execute(update(search_leases).where(*mine).values(holder="", until_s=0.0))

    async def get(self, search: str) -> SearchLease | None:
        """Return the present or last lease of a search; None if there was never one."""
        statement = select_record(search_leases, SearchLease).where(search_leases.c.search == search)
        return await self._database.first(SearchLease, statement)

    async def fingerprints(self) -> list[SearchFingerprint]:
        """Return the fingerprints of all unfinished searches; reads no wide columns."""
        columns = (searches.c.id, searches.c.owner, searches.c.state, searches.c.updated_at)
        in_flight = (counters.c.candidates - counters.c.evaluated).label("in_flight")
        statement = select(*columns, in_flight).join(counters, counters.c.search == searches.c.id)
        return await self._database.all(SearchFingerprint, statement.where(TO_RUN))


async def require_held(connection: AsyncConnection, search: str, holder: str | None) -> None:
    """Make sure that a holder keeps a search until the caller's transaction ends; None needs no lease.

    Raises:
        RecordConflict: If the holder no longer has the lease.
    """
    if holder is None:
        return
    # Shared with other writers of this holder; a coordinator that takes the search over waits for our commit.
    statement = select(search_leases.c.fence).where(search_leases.c.search == search, search_leases.c.holder == holder)
    if await connection.scalar(statement.with_for_update(read=True)) is None:
        raise RecordConflict(f"search {search} is run by another coordinator")


def _untaken(
    holder: str, clock: ColumnElement[float], term_s: float, *, by_force: bool
) -> Select[tuple[str, str, int, float]]:
    """Select a first lease for each unfinished search that may be taken."""
    held = search_leases.c.holder == holder if by_force else search_leases.c.until_s > clock
    taken = exists().where(search_leases.c.search == searches.c.id, held)
    values = (searches.c.id, literal(holder), literal(1), clock + term_s)
    return select(*values).where(TO_RUN, ~taken)


def _columns() -> list[ColumnElement[object]]:
    return [search_leases.c.search, search_leases.c.holder, search_leases.c.fence, search_leases.c.until_s]


def _clock(connection: AsyncConnection) -> ColumnElement[float]:
    """Return seconds since 1970, now and not when the transaction began."""
    if connection.dialect.name == "sqlite":
        return (func.julianday("now", type_=Double) - UNIX_EPOCH_DAY) * DAY_S
    return cast(func.extract("epoch", func.clock_timestamp()), Double)
