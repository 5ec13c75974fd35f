"""Remote workers and their states. The service decides what they may do."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ScalarSelect, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.errors import RecordConflict
from archive.records import NewRemoteWorker, RemoteWorker, RemoteWorkerCounts, RemoteWorkerState, UnverifiedTrace
from archive.store.engine import Database, select_record, upsert
from archive.tables import remote_workers, trusted_machines, unverified_traces

EXCLUDED = (RemoteWorkerState.SUSPENDED, RemoteWorkerState.REVOKED)
"""States of a worker that was excluded for misbehaviour."""


class RemoteWorkerStore:
    """Workers that joined with a token."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, new: NewRemoteWorker) -> RemoteWorker:
        """Add a remote worker; it starts as active, and as trusted if its machine is trusted.

        Raises:
            RecordConflict: If the id is taken.
        """
        moment = now()
        async with self._database.write() as connection:
            trusted_machine = select(trusted_machines.c.machine).where(trusted_machines.c.machine == new.machine)
            worker = RemoteWorker(
                **vars(new),
                state=RemoteWorkerState.ACTIVE,
                reason="",
                trusted=await connection.scalar(trusted_machine) is not None,
                done=0,
                refused=0,
                checked=0,
                disagreed=0,
                joined_at=moment,
                seen_at=moment,
            )
            await connection.execute(insert(remote_workers).values(vars(worker)))
        return worker

    async def get(self, id: str) -> RemoteWorker:
        """Return one remote worker.

        Raises:
            RecordNotFound: If there is none.
        """
        statement = select_record(remote_workers, RemoteWorker).where(remote_workers.c.id == id)
        return await self._database.one(RemoteWorker, statement, f"there is no worker {id}")

    async def unverified_traces_of(self, candidates: Collection[str]) -> list[UnverifiedTrace]:
        """Return which of these candidates' traces are unverified."""
        statement = select_record(unverified_traces, UnverifiedTrace).where(
            unverified_traces.c.candidate.in_(candidates)
        )
        return await self._database.all(UnverifiedTrace, statement)

    async def list(self, states: Collection[RemoteWorkerState]) -> list[RemoteWorker]:
        """Return the workers in these states, by id. Final states collect ever more workers: avoid them."""
        statement = select_record(remote_workers, RemoteWorker).where(remote_workers.c.state.in_(states))
        return sorted(await self._database.all(RemoteWorker, statement), key=lambda worker: worker.id)

    async def set_state(
        self, id: str, state: RemoteWorkerState, *, reason: str = "", only_from: Collection[RemoteWorkerState]
    ) -> RemoteWorker:
        """Move a worker to a state. If it is suspended or revoked, its machine is no longer trusted.

        Args:
            id: Id of the worker.
            state: The new state.
            reason: Reason, for people.
            only_from: States that it may be in before; one that is in `state` already stays there.

        Raises:
            RecordNotFound: If there is no such worker.
            RecordConflict: If it is in another state.
        """
        statement = (
            update(remote_workers)
            .where(remote_workers.c.id == id, remote_workers.c.state.in_(only_from))
            .values(state=state, reason=reason, trusted=remote_workers.c.trusted if state.works else False)
        )
        async with self._database.write() as connection:
            changed = (await connection.execute(statement)).rowcount
            if changed and state in EXCLUDED:
                await connection.execute(delete(trusted_machines).where(trusted_machines.c.machine == _machine(id)))
        worker = await self.get(id)
        if not changed and worker.state is not state:
            raise RecordConflict(f"worker {id} is {worker.state.value} and cannot become {state.value}")
        return worker

    async def trust(self, id: str, trusted: bool) -> RemoteWorker:
        """Trust a worker's machine, or stop trusting it: all its workers, and those that join from it later.

        Raises:
            RecordNotFound: If there is no such worker.
            RecordConflict: If the worker may not take jobs.
        """
        works = remote_workers.c.state.in_((RemoteWorkerState.ACTIVE, RemoteWorkerState.DRAINING))
        async with self._database.write() as connection:
            statement = update(remote_workers).where(remote_workers.c.id == id, works).values(trusted=trusted)
            changed = (await connection.execute(statement.returning(remote_workers.c.machine))).one_or_none()
            if changed is not None and changed.machine is not None:
                theirs = update(remote_workers).where(remote_workers.c.machine == changed.machine, works)
                await connection.execute(theirs.values(trusted=trusted))
                await _trust_machine(connection, changed.machine, trusted)
        worker = await self.get(id)
        if changed is None:
            raise RecordConflict(f"worker {id} is {worker.state.value}")
        return worker

    async def tally(self, counts: Mapping[str, RemoteWorkerCounts], seen: Mapping[str, datetime]) -> None:
        """Add to the counts of workers, and store their last heartbeats. Unknown ids are ignored."""
        async with self._database.write() as connection:
            for id, more in counts.items():
                added = {name: remote_workers.c[name] + count for name, count in asdict(more).items() if count}
                if added:
                    await connection.execute(update(remote_workers).where(remote_workers.c.id == id).values(added))
            for id, moment in seen.items():
                await connection.execute(update(remote_workers).where(remote_workers.c.id == id).values(seen_at=moment))

    async def mark_unverified(self, candidate: str, worker: str) -> None:
        """Mark a candidate's trace as made by an untrusted worker. Idempotent.

        Raises:
            RecordConflict: If there is no such candidate.
        """
        row = {"candidate": candidate, "host": worker, "created_at": now()}
        async with self._database.write() as connection:
            await connection.execute(upsert(connection, unverified_traces).values(row).on_conflict_do_nothing())

    async def unverified_trace(self, candidate: str) -> UnverifiedTrace | None:
        """Return the untrusted worker that made a candidate's trace; None if it is trusted."""
        statement = select_record(unverified_traces, UnverifiedTrace).where(unverified_traces.c.candidate == candidate)
        return await self._database.first(UnverifiedTrace, statement)

    async def mark_verified(self, candidate: str) -> None:
        """Mark a trace as verified by a trusted worker. Idempotent."""
        async with self._database.write() as connection:
            await connection.execute(delete(unverified_traces).where(unverified_traces.c.candidate == candidate))


def _machine(id: str) -> ScalarSelect[str | None]:
    return select(remote_workers.c.machine).where(remote_workers.c.id == id).scalar_subquery()


async def _trust_machine(connection: AsyncConnection, machine: str, trusted: bool) -> None:
    if not trusted:
        await connection.execute(delete(trusted_machines).where(trusted_machines.c.machine == machine))
        return
    row = {"machine": machine, "created_at": now()}
    await connection.execute(upsert(connection, trusted_machines).values(row).on_conflict_do_nothing())
