"""Deletion of ended searches with everything that belongs to them alone.

Rows go in small transactions, the children of a row before the row itself, so that others may write in between. The
first transaction marks the search as failed: nothing can continue it, and after a crash a repetition finishes the rest.
"""

from collections import Counter
from datetime import datetime

from sqlalchemy import ColumnElement, Table, delete, exists, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import SearchState
from archive.store.engine import Database
from archive.tables import bundles, candidates, counters, metadata, searches, variants
from kernelreef.states import ENDED

ROWS_AT_ONCE = 2000
"""Maximum number of rows that one transaction deletes from a table."""
INTERRUPTED = "its deletion was interrupted; delete it again"
"""Reason of a search that is partly deleted."""


class Retention:
    """Removes ended searches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, before: datetime) -> list[str]:
        """Ids of the searches that ended before a time, oldest first. A change of a name, tag or note counts as use."""
        statement = select(searches.c.id).where(searches.c.state.in_(ENDED), searches.c.updated_at < before)
        async with self._database.read() as connection:
            return list((await connection.scalars(statement.order_by(searches.c.id))).all())

    async def prune(self, before: datetime) -> dict[str, int]:
        """Delete every search that ended before a time.

        Returns:
            The number of rows removed, by table.
        """
        removed = _none_removed()
        for id in await self.expired(before):
            removed.update(await self.delete(id))
        return dict(removed)

    async def delete(self, search: str) -> dict[str, int]:
        """Delete an ended search: its candidates, reports and elites, and the bundles that no other search has.

        Operators stay, and so do bundles that another search shares.

        Returns:
            The number of rows removed, by table.

        Raises:
            RecordNotFound: If there is no such search.
            RecordConflict: If it has not ended.
        """
        await self._close(search)
        removed = _none_removed()
        for table in _OF_SEARCHES:
            await self._delete_all(table, table.c.search == search, removed)
        await self._delete_all(candidates, candidates.c.search == search, removed)
        async with self._database.write() as connection:  # Lists show a search with its counters to the end.
            await connection.execute(delete(counters).where(counters.c.search == search))
            await connection.execute(delete(searches).where(searches.c.id == search))
        removed.update({counters.name: 1, searches.name: 1})
        return dict(removed)

    async def _delete_all(self, table: Table, condition: ColumnElement[bool], removed: Counter[str]) -> None:
        """Delete rows of a table, a limited number in each transaction; rows of candidates with their children."""
        key = list(table.primary_key.columns)
        statement = select(*key).where(condition).limit(ROWS_AT_ONCE)
        count = ROWS_AT_ONCE
        while count == ROWS_AT_ONCE:
            async with self._database.write() as connection:
                rows = [tuple(row) for row in await connection.execute(statement)]
                if table is candidates and rows:
                    await _delete_children(connection, [id for (id,) in rows], removed)
                if rows:
                    await connection.execute(delete(table).where(tuple_(*key).in_(rows)))
            count = len(rows)
            removed[table.name] += count

    async def _close(self, search: str) -> None:
        mark = {"state": SearchState.FAILED, "reason": INTERRUPTED, "updated_at": now(), "finishing": False}
        async with self._database.write() as connection:
            statement = update(searches).where(searches.c.id == search, searches.c.state.in_(ENDED)).values(mark)
            if (await connection.execute(statement)).rowcount:
                return
            state = await connection.scalar(select(searches.c.state).where(searches.c.id == search))
        if state is None:
            raise RecordNotFound(f"there is no search {search}")
        raise RecordConflict(f"search {search} is {state.value}; stop it before you delete it")


def _children(parent: Table) -> list[Table]:
    """Tables with rows that refer to a parent, those first that nothing refers to."""
    key = parent.c.id
    return [
        table
        for table in reversed(metadata.sorted_tables)
        if any(each.column is key for column in table.columns for each in column.foreign_keys)
    ]


_OF_SEARCHES = [table for table in _children(searches) if table is not candidates and table is not counters]
_OF_CANDIDATES = [table for table in _children(candidates) if table not in _OF_SEARCHES]
"""Tables whose rows name a candidate only; the others name its search as well."""


def _none_removed() -> Counter[str]:
    tables = (*_OF_SEARCHES, *_OF_CANDIDATES, candidates, bundles, counters, searches)
    return Counter({table.name: 0 for table in tables})


async def _delete_children(connection: AsyncConnection, ids: list[str], removed: Counter[str]) -> None:
    """Delete the rows of candidates in other tables, and their bundles that no other variant refers to."""
    named = select(variants.c.bundle).where(variants.c.candidate.in_(ids), variants.c.bundle.is_not(None)).distinct()
    identities = (await connection.scalars(named)).all()
    for table in _OF_CANDIDATES:
        column = next(
            column for column in table.columns for each in column.foreign_keys if each.column is candidates.c.id
        )
        removed[table.name] += (await connection.execute(delete(table).where(column.in_(ids)))).rowcount
    held = exists().where(variants.c.bundle == bundles.c.identity)
    unheld = delete(bundles).where(bundles.c.identity.in_(identities), ~held)
    removed[bundles.name] += (await connection.execute(unheld)).rowcount
