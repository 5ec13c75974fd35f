"""Hosts: who joined and how they stand. What they are let do is the service's to say."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ScalarSelect, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.columns import now
from archive.errors import Conflict, NotFound
from archive.records import Doubt, Host, HostState, HostTally, NewHost
from archive.store.engine import Database, select_record, upsert
from archive.tables import doubts, hosts, vouches

SHUT_OUT = (HostState.SUSPENDED, HostState.REVOKED)
"""States that somebody is put into against whom there is something."""


class Hosts:
    """Workers that joined with a token."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, new: NewHost) -> Host:
        """Take a host in; it begins as active, and as trusted if its machine is vouched for.

        Raises:
            Conflict: If the id is taken.
        """
        moment = now()
        async with self._database.write() as connection:
            vouched = select(vouches.c.machine).where(vouches.c.machine == new.machine)
            host = Host(
                **vars(new),
                state=HostState.ACTIVE,
                reason="",
                trusted=await connection.scalar(vouched) is not None,
                done=0,
                refused=0,
                checked=0,
                disagreed=0,
                joined_at=moment,
                seen_at=moment,
            )
            await connection.execute(insert(hosts).values(vars(host)))
        return host

    async def get(self, id: str) -> Host:
        """One host.

        Raises:
            NotFound: If there is none.
        """
        async with self._database.read() as connection:
            row = (await connection.execute(select_record(hosts, Host).where(hosts.c.id == id))).first()
        if row is None:
            raise NotFound(f"there is no host {id}")
        return Host(**row._asdict())

    async def doubts_of(self, candidates: Collection[str]) -> list[Doubt]:
        """Which of these candidates' traces are the word of untrusted hosts."""
        statement = select_record(doubts, Doubt).where(doubts.c.candidate.in_(candidates))
        async with self._database.read() as connection:
            return [Doubt(**row._asdict()) for row in await connection.execute(statement)]

    async def list(self, states: Collection[HostState]) -> list[Host]:
        """Hosts in these states, by id. Ask for states that hosts leave again: the others' number grows."""
        async with self._database.read() as connection:
            rows = await connection.execute(select_record(hosts, Host).where(hosts.c.state.in_(states)))
            found = [Host(**row._asdict()) for row in rows]
        return sorted(found, key=lambda host: host.id)

    async def set_state(self, id: str, state: HostState, *, reason: str = "", only_from: Collection[HostState]) -> Host:
        """Move a host to a state. Where one is shut out, its machine is vouched for no longer.

        Args:
            id: Which host.
            state: Where to.
            reason: Why, for a person.
            only_from: States it may come from; one that is in `state` already stays there.

        Raises:
            NotFound: If there is no such host.
            Conflict: If it is in another state.
        """
        statement = (
            update(hosts)
            .where(hosts.c.id == id, hosts.c.state.in_(only_from))
            .values(state=state, reason=reason, trusted=hosts.c.trusted if state.works else False)
        )
        async with self._database.write() as connection:
            changed = (await connection.execute(statement)).rowcount
            if changed and state in SHUT_OUT:
                await connection.execute(delete(vouches).where(vouches.c.machine == _machine(id)))
        host = await self.get(id)
        if not changed and host.state is not state:
            raise Conflict(f"worker {id} is {host.state.value} and cannot become {state.value}")
        return host

    async def trust(self, id: str, trusted: bool) -> Host:
        """Vouch for a host, or no longer: for all that work on its machine, and for those that join from there later.

        Raises:
            NotFound: If there is no such host.
            Conflict: If it does not work.
        """
        works = hosts.c.state.in_((HostState.ACTIVE, HostState.DRAINING))
        async with self._database.write() as connection:
            statement = update(hosts).where(hosts.c.id == id, works).values(trusted=trusted)
            changed = (await connection.execute(statement.returning(hosts.c.machine))).one_or_none()
            if changed is not None and changed.machine is not None:
                theirs = update(hosts).where(hosts.c.machine == changed.machine, works)
                await connection.execute(theirs.values(trusted=trusted))
                await _vouch(connection, changed.machine, trusted)
        host = await self.get(id)
        if changed is None:
            raise Conflict(f"worker {id} is {host.state.value}")
        return host

    async def tally(self, counts: Mapping[str, HostTally], seen: Mapping[str, datetime]) -> None:
        """Add to hosts' counts, and write down their last signs of life. Ids that are none of a host count nothing."""
        async with self._database.write() as connection:
            for id, more in counts.items():
                added = {name: hosts.c[name] + count for name, count in asdict(more).items() if count}
                if added:
                    await connection.execute(update(hosts).where(hosts.c.id == id).values(added))
            for id, moment in seen.items():
                await connection.execute(update(hosts).where(hosts.c.id == id).values(seen_at=moment))

    async def doubt(self, candidate: str, host: str) -> None:
        """Keep in mind that a candidate's trace is an untrusted host's. Asking again changes nothing.

        Raises:
            Conflict: If there is no such candidate.
        """
        row = {"candidate": candidate, "host": host, "created_at": now()}
        async with self._database.write() as connection:
            await connection.execute(upsert(connection, doubts).values(row).on_conflict_do_nothing())

    async def doubted(self, candidate: str) -> Doubt | None:
        """Whose word a candidate's trace is, if it is an untrusted host's."""
        async with self._database.read() as connection:
            row = (
                await connection.execute(select_record(doubts, Doubt).where(doubts.c.candidate == candidate))
            ).first()
        return None if row is None else Doubt(**row._asdict())

    async def believe(self, candidate: str) -> None:
        """A trusted worker found the same: the doubt is gone. Asking again changes nothing."""
        async with self._database.write() as connection:
            await connection.execute(delete(doubts).where(doubts.c.candidate == candidate))


def _machine(id: str) -> ScalarSelect[str | None]:
    return select(hosts.c.machine).where(hosts.c.id == id).scalar_subquery()


async def _vouch(connection: AsyncConnection, machine: str, trusted: bool) -> None:
    if not trusted:
        await connection.execute(delete(vouches).where(vouches.c.machine == machine))
        return
    row = {"machine": machine, "created_at": now()}
    await connection.execute(upsert(connection, vouches).values(row).on_conflict_do_nothing())
