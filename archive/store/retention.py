"""Retention: removal of old searches, with everything that only they use."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, delete, or_, select

from archive.records import SearchState
from archive.store.engine import Database
from archive.tables import bundles, candidates, metadata, searches, variants

ENDED = (SearchState.DONE, SearchState.STOPPED, SearchState.FAILED)


class Retention:
    """Removes old searches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, before: datetime) -> list[str]:
        """Return the ids of the searches that ended before a time, oldest first."""
        async with self._database.read() as connection:
            return list((await connection.scalars(_ended(before).order_by(searches.c.id))).all())

    async def prune(self, before: datetime) -> dict[str, int]:
        """Remove every search that ended before a time: its candidates, reports and elites, then unused bundles.

        A bundle that another search shares stays, and so do operators. It is one transaction, whose time grows with the
        rows; the archive can be read meanwhile.

        Returns:
            The number of rows removed, by table.
        """
        removed = {}
        async with self._database.write() as connection:
            for table in reversed(metadata.sorted_tables):
                condition = _belongs(table, before)
                if condition is not None:
                    removed[table.name] = (await connection.execute(delete(table).where(condition))).rowcount
            held = select(variants.c.bundle).where(variants.c.bundle.is_not(None))
            unheld = delete(bundles).where(bundles.c.identity.not_in(held))
            removed[bundles.name] = (await connection.execute(unheld)).rowcount
        return removed


def _ended(before: datetime) -> Select[Any]:
    return select(searches.c.id).where(searches.c.state.in_(ENDED), searches.c.updated_at < before)


def _belongs(table: Table, before: datetime) -> ColumnElement[bool] | None:
    """Select the rows of a table that belong to expired searches; None if it has no such rows."""
    ended = _ended(before)
    if table is searches:
        return searches.c.id.in_(ended)
    theirs = select(candidates.c.id).where(candidates.c.search.in_(ended))
    conditions = [
        column.in_(ended if key.column is searches.c.id else theirs)
        for column in table.columns
        for key in column.foreign_keys
        if key.column is searches.c.id or key.column is candidates.c.id
    ]
    return or_(*conditions) if conditions else None
