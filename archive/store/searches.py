"""Searches and their states."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Update, case, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordConflict, RecordNotFound
from archive.records import MeasuredBaselines, NewSearch, ReferenceChange, SearchRecord, SearchState
from archive.store.engine import Database, select_record
from archive.store.search_leases import require_held
from archive.tables import (
    candidates,
    counters,
    elites,
    milestones,
    placements,
    provisional_holders,
    search_tags,
    searches,
)
from kernelreef.states import ENDED


class SearchStore:
    """Searches, from preparing to done."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, new: NewSearch) -> SearchRecord:
        """Store a search; it begins as preparing.

        Raises:
            RecordConflict: If the id is taken or the operator unknown.
        """
        chosen = {field.name: getattr(new, field.name) for field in fields(new)}
        created = now()
        search = SearchRecord(
            **chosen,
            graphs=(),
            state=SearchState.PREPARING,
            reason="",
            created_at=created,
            updated_at=created,
        )
        async with self._database.write() as connection:
            await connection.execute(insert(searches).values(vars(search)))
            await _tag(connection, new.id, new.tags)
            await connection.execute(
                insert(counters).values(search=new.id, proposals=0, candidates=0, evaluated=0, device_ms=0)
            )
        return search

    async def get(self, id: str) -> SearchRecord:
        """Return one search.

        Raises:
            RecordNotFound: If there is none.
        """
        async with self._database.read() as connection:
            return await _get(connection, id)

    async def set_state(
        self,
        id: str,
        state: SearchState,
        *,
        reason: str = "",
        only_from: Collection[SearchState] = (),
        holder: str | None = None,
        finishing: bool = False,
    ) -> SearchRecord:
        """Move a search to a state.

        Args:
            id: Id of the search.
            state: The new state.
            reason: Reason, for people.
            only_from: States that it may be in before; any if empty.
            holder: Id of the coordinator that must hold its lease; None to skip this check.
            finishing: True if its finalists or its baselines are still to come; only for a done search.

        Raises:
            RecordNotFound: If there is no such search.
            RecordConflict: If it is in a state not among `only_from`, or another coordinator runs it.
        """
        ended_at = now() if state in ENDED else None
        statement = _change(id).values(state=state, reason=reason, ended_at=ended_at, finishing=finishing)
        if only_from:
            statement = statement.where(searches.c.state.in_(only_from))
        async with self._database.write() as connection:
            await require_held(connection, id, holder)
            changed = (await connection.execute(statement)).rowcount
            search = await _get(connection, id)
        if not changed:
            raise RecordConflict(f"search {id} is {search.state.value} and cannot become {state.value}")
        return search

    async def finish(self, id: str, *, holder: str) -> bool:
        """Mark a done search as finished: nothing about it is to come. Returns False if it was not finishing.

        Raises:
            RecordNotFound: If there is no such search.
            RecordConflict: If another coordinator runs it.
        """
        statement = _change(id).where(searches.c.finishing).values(finishing=False)
        async with self._database.write() as connection:
            await require_held(connection, id, holder)
            changed = (await connection.execute(statement)).rowcount
            await _get(connection, id)
        return bool(changed)

    async def count_time(self, ids: Collection[str], ms: int) -> None:
        """Count time of running searches: before the first verdict apart from the time since then.

        Args:
            ids: Ids of the searches.
            ms: Milliseconds that each of them has run.
        """
        started = counters.c.evaluated > 0
        times = {
            "running_ms": counters.c.running_ms + case((started, ms), else_=0),
            "starting_ms": counters.c.starting_ms + case((started, 0), else_=ms),
        }
        async with self._database.write() as connection:
            await connection.execute(update(counters).where(counters.c.search.in_(ids)).values(times))

    async def set_graphs(self, id: str, graphs: Sequence[Mapping[str, Any]]) -> None:
        """Store the reference graphs.

        Raises:
            RecordNotFound: If there is no such search.
        """
        await _apply(self._database, id, _change(id).values(graphs=tuple(graphs)))

    async def set_admitted(self, id: str, reason: str) -> None:
        """Mark a search that goes on although mutation testing failed its operator, with the reason.

        Raises:
            RecordNotFound: If there is no such search.
        """
        await _apply(self._database, id, _change(id).values(admitted=reason))

    async def change(
        self,
        id: str,
        *,
        evaluations: int | None = None,
        priority: int | None = None,
        stop: Mapping[str, Any] | None = None,
        only_in: Collection[SearchState] = (),
    ) -> SearchRecord:
        """Change a search's evaluations, priority or stop rules; None keeps a value.

        Args:
            id: Id of the search.
            evaluations: Maximum number of evaluations in all.
            priority: Weight among its owner's searches, 1 to 9.
            stop: Stop rules, in place of the earlier ones; an empty mapping removes them.
            only_in: States in which it may be changed; any if empty.

        Raises:
            RecordNotFound: If there is no such search.
            RecordConflict: If it is in a state not among `only_in`.
        """
        given = {"evaluations": evaluations, "priority": priority, "stop": stop}
        statement = _change(id).values({name: value or None for name, value in given.items() if value is not None})
        if only_in:
            statement = statement.where(searches.c.state.in_(only_in))
        async with self._database.write() as connection:
            changed = (await connection.execute(statement)).rowcount
            search = await _get(connection, id)
        if not changed:
            raise RecordConflict(f"search {id} is {search.state.value}; it cannot be changed")
        return search

    async def relate(self, id: str, device: str, baselines: MeasuredBaselines) -> bool:
        """Keep the baselines of a device, and turn its objectives from those over the pacer into those over them.

        Returns False, and changes nothing, if the device has baselines. All in one transaction.

        Raises:
            RecordNotFound: If there is no such search.
        """
        async with self._database.write() as connection:
            await connection.execute(_change(id))  # Locks the row.
            search = await _get(connection, id)
            if device in search.baselines:
                return False
            known = {**search.baselines, device: baselines}
            await connection.execute(update(searches).where(searches.c.id == id).values(baselines=known))
            await _scale(connection, search, device, baselines)
        return True

    async def label(
        self, id: str, *, name: str | None = None, tags: Sequence[str] | None = None, notes: str | None = None
    ) -> SearchRecord:
        """Change a search's name, tags or notes, in whatever state it is; None keeps a value.

        Raises:
            RecordNotFound: If there is no such search.
        """
        given = {"name": name, "tags": None if tags is None else tuple(dict.fromkeys(tags)), "notes": notes}
        async with self._database.write() as connection:
            await connection.execute(
                _change(id).values({column: value for column, value in given.items() if value is not None})
            )
            search = await _get(connection, id)
            if tags is not None:
                await connection.execute(delete(search_tags).where(search_tags.c.search == id))
                await _tag(connection, id, tags)
        return search

    # Last, because from here on `list` means this method.
    async def list(self, *, limit: int = 50, states: Collection[SearchState] = ()) -> list[SearchRecord]:
        """Return the newest searches; only those in one of `states` if any are given."""
        statement = select_record(searches, SearchRecord).order_by(searches.c.id.desc()).limit(limit)
        if states:
            statement = statement.where(searches.c.state.in_(states))
        return await self._database.all(SearchRecord, statement)


async def change_references(connection: AsyncConnection, changes: Iterable[ReferenceChange]) -> None:
    """Give searches another reference seed, unless they have another one already."""
    for change in sorted(changes, key=lambda change: change.search):
        statement = _change(change.search).where(searches.c.reference_seed == change.refused)
        values = {"reference_seed": change.following, "refused_seeds": change.refused_seeds}
        await connection.execute(statement.values(values))


async def _tag(connection: AsyncConnection, id: str, tags: Sequence[str]) -> None:
    if tags:
        rows = [{"search": id, "tag": tag} for tag in dict.fromkeys(tags)]
        await connection.execute(insert(search_tags), rows)


async def _scale(connection: AsyncConnection, search: SearchRecord, device: str, by: MeasuredBaselines) -> None:
    """Multiply all objectives of a device, with their bounds."""
    for table in (elites, provisional_holders, placements):
        scaled = {
            "objective": table.c.objective * by.low,
            "low": table.c.low * by.low,
            "mid": table.c.mid * by.mid,
            "high": table.c.high * by.high,
        }
        here = table.c.search == search.id, table.c.device == device
        await connection.execute(update(table).where(*here).values(scaled))
    here = milestones.c.search == search.id, milestones.c.device == device
    scaled = {"best": milestones.c.best * by.low, "qd_score": milestones.c.qd_score * by.low}
    await connection.execute(update(milestones).where(*here).values(scaled))
    judged = select(candidates.c.id, candidates.c.objectives).where(
        candidates.c.search == search.id, candidates.c.outcome.is_not(None)
    )
    for row in (await connection.execute(judged)).all():
        if device in row.objectives:
            values = {"objectives": {**row.objectives, device: row.objectives[device] * by.low}}
            if device == search.devices[0]:
                values["objective"] = values["objectives"][device]
            await connection.execute(update(candidates).where(candidates.c.id == row.id).values(values))


async def _apply(database: Database, id: str, change: Update) -> None:
    async with database.write() as connection:
        if not (await connection.execute(change)).rowcount:
            raise RecordNotFound(f"there is no search {id}")


def _change(id: str) -> Update:
    return update(searches).where(searches.c.id == id).values(updated_at=now())


async def _get(connection: AsyncConnection, id: str) -> SearchRecord:
    row = (await connection.execute(select_record(searches, SearchRecord).where(searches.c.id == id))).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no search {id}")
    return SearchRecord(**row._asdict())
