"""Knowledge: entries, what each search said about them, and which of them help with what.

Counts, gains and states of an entry are always those of its findings: a search that is distilled again replaces its own
finding, and so changes nothing. Entries are written in the order of their ids, so that two transactions about the same
ones wait for each other and never deadlock.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.column_types import now
from archive.credit import pays, worth
from archive.errors import RecordNotFound
from archive.records import (
    ImportedEntryRecord,
    KnowledgeEntryRecord,
    KnowledgeFindingRecord,
    KnowledgeState,
    NewKnowledgeEntry,
    SearchState,
)
from archive.store.engine import Database, select_record, upsert
from archive.tables import distillations, findings, knowledge, searches

SHORTLIST = 128
"""Entries of one kind and device that `find` looks at, those of most worth: far more than a prompt can hold."""
COUNTS = ("successes", "failures", "wins", "losses")
BEST = ("low", "mid", "high", "jobs", "before", "after", "example", "operator")
"""What an entry takes from its best finding."""


class KnowledgeStore:
    """What was learned across searches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def learn(
        self,
        search: str,
        operator: str,
        lessons: Sequence[tuple[NewKnowledgeEntry, KnowledgeFindingRecord]],
        carried: Mapping[str, tuple[int, int]],
    ) -> None:
        """Keep what a search says about entries, new or known, and that it was asked. Idempotent by search.

        Args:
            search: Which search.
            operator: Name of its operator.
            lessons: What its pairs say; one without a success counts only where the entry is known already.
            carried: By entry, wins and losses of proposals whose prompts carried it; what is no entry is passed over.

        Raises:
            Conflict: If the search is unknown.
        """
        given = {entry.id: ImportedEntryRecord(entry, findings=(finding,)) for entry, finding in lessons}
        async with self._database.write() as connection:
            for id in sorted({*given, *carried}):
                if id in given and (given[id].findings[0].successes or await _lock(connection, id)):
                    await _add(connection, given[id])
                if id in carried:
                    await _credit(connection, id, KnowledgeFindingRecord(search, operator), carried[id])
            entry = upsert(connection, distillations).values(search=search, at=now())
            await connection.execute(entry.on_conflict_do_nothing())

    async def put(self, given: Sequence[ImportedEntryRecord]) -> None:
        """Keep entries as a person hands them in: sentences and states replace what was there. Idempotent."""
        async with self._database.write() as connection:
            for item in sorted(given, key=lambda item: item.entry.id):
                await _add(connection, item)
                said = {"sentence": item.entry.sentence, "state": item.state, "held": item.held}
                await connection.execute(update(knowledge).where(knowledge.c.id == item.entry.id).values(**said))
                await _recount(connection, item.entry.id)

    async def edit(
        self, id: str, *, sentence: str | None = None, state: KnowledgeState | None = None
    ) -> KnowledgeEntryRecord:
        """Change an entry's sentence, or decide on its state for good.

        Raises:
            NotFound: If there is no such entry.
        """
        changes: dict[str, Any] = {"updated_at": now()}
        changes |= {} if sentence is None else {"sentence": sentence}
        changes |= {} if state is None else {"state": state, "held": True}
        async with self._database.write() as connection:
            await connection.execute(update(knowledge).where(knowledge.c.id == id).values(**changes))
            return await _get(connection, id)

    async def get(self, id: str) -> KnowledgeEntryRecord:
        """One entry.

        Raises:
            NotFound: If there is none.
        """
        async with self._database.read() as connection:
            return await _get(connection, id)

    async def findings(self, id: str) -> list[KnowledgeFindingRecord]:
        """What each search says of an entry, by search."""
        statement = (
            select_record(findings, KnowledgeFindingRecord).where(findings.c.entry == id).order_by(findings.c.search)
        )
        async with self._database.read() as connection:
            return [KnowledgeFindingRecord(**row._asdict()) for row in await connection.execute(statement)]

    async def named_by(self, search: str) -> int:
        """How many entries a search has something to say about."""
        statement = select(func.count()).select_from(findings).where(findings.c.search == search)
        async with self._database.read() as connection:
            return await connection.scalar(statement) or 0

    async def find(
        self, traits: Sequence[str], bottleneck: str | None, devices: Sequence[str], limit: int
    ) -> list[KnowledgeEntryRecord]:
        """Active entries that may help, most fitting first; the same for the same archive.

        Args:
            traits: Of the operator; only entries of its kind, the first trait, are considered.
            bottleneck: What the kernel at hand is bound by, None if that is not known.
            devices: Whose entries may help, the nearest first.
            limit: Most to return.

        Returns:
            Entries with the most traits in common first; of these first those with the same bottleneck, then those of
            the nearer device, then those of more worth, then by id.
        """
        shortlist: list[KnowledgeEntryRecord] = []
        async with self._database.read() as connection:
            for device in devices:
                rows = await connection.execute(_worthiest(traits[0], device))
                shortlist += [KnowledgeEntryRecord(**row._asdict()) for row in rows]

        def fit(entry: KnowledgeEntryRecord) -> tuple[int, bool, int, float, str]:
            common = len(set(traits) & set(entry.traits))
            return (-common, entry.bottleneck != bottleneck, devices.index(entry.device), -entry.worth, entry.id)

        return sorted(shortlist, key=fit)[:limit]

    async def undistilled(self, states: Collection[SearchState], limit: int = 100) -> list[str]:
        """Ids of searches in these states that were never asked what they learned."""
        asked = distillations.c.search == searches.c.id
        statement = (
            select(searches.c.id)
            .outerjoin(distillations, asked)
            .where(searches.c.state.in_(states), distillations.c.search.is_(None))
            .limit(limit)
        )
        async with self._database.read() as connection:
            return sorted((await connection.scalars(statement)).all())

    # Last, because from here on `list` means this method.
    async def list(
        self, *, limit: int = 50, after: tuple[float, str] | None = None, state: KnowledgeState | None = None
    ) -> list[KnowledgeEntryRecord]:
        """Entries, those of most worth first.

        Args:
            limit: Most to return.
            after: Worth and id of the last entry seen.
            state: Only those in this state.
        """
        statement = select_record(knowledge, KnowledgeEntryRecord).limit(limit)
        statement = statement.order_by(knowledge.c.worth.desc(), knowledge.c.id.desc())
        if after is not None:
            here, id = after
            later = (knowledge.c.worth < here) | ((knowledge.c.worth == here) & (knowledge.c.id < id))
            statement = statement.where(later)
        if state is not None:
            statement = statement.where(knowledge.c.state == state)
        async with self._database.read() as connection:
            return [KnowledgeEntryRecord(**row._asdict()) for row in await connection.execute(statement)]


def _worthiest(kind: str, device: str) -> Select[Any]:
    return (
        select_record(knowledge, KnowledgeEntryRecord)
        .where(knowledge.c.kind == kind, knowledge.c.device == device, knowledge.c.state == KnowledgeState.ACTIVE)
        .order_by(knowledge.c.worth.desc(), knowledge.c.id.desc())
        .limit(SHORTLIST)
    )


async def _add(connection: AsyncConnection, given: ImportedEntryRecord) -> None:
    """Store an entry unless it is known, and its findings over earlier ones of the same searches."""
    entry, at = given.entry, now()
    blank = {name: getattr(KnowledgeFindingRecord("", ""), name) for name in (*COUNTS, *BEST)}
    values = {
        **{field.name: getattr(entry, field.name) for field in fields(NewKnowledgeEntry)},
        **{"id": entry.id, "kind": entry.traits[0], "state": given.state, "held": given.held},
        **{**blank, "worth": 0.0, "created_at": at, "updated_at": at},
    }
    await connection.execute(upsert(connection, knowledge).values(values).on_conflict_do_nothing())
    await _lock(connection, entry.id)
    for finding in given.findings:
        said = asdict(finding)
        await _upsert_finding(connection, entry.id, said, said)
    await _recount(connection, entry.id)


async def _credit(connection: AsyncConnection, id: str, blank: KnowledgeFindingRecord, won: tuple[int, int]) -> None:
    """Add wins and losses to a search's finding about an entry; it is a blank one if the search found nothing else."""
    if await _lock(connection, id):
        counted = dict(zip(("wins", "losses"), won, strict=True))
        await _upsert_finding(connection, id, asdict(blank) | counted, counted)
        await _recount(connection, id)


async def _lock(connection: AsyncConnection, id: str) -> bool:
    """Have others that write about an entry wait until this transaction ends; whether there is such an entry."""
    touched = update(knowledge).where(knowledge.c.id == id).values(updated_at=now())
    return (await connection.execute(touched)).rowcount == 1


async def _upsert_finding(
    connection: AsyncConnection, entry: str, finding: Mapping[str, Any], changes: Mapping[str, Any]
) -> None:
    statement = upsert(connection, findings).values(entry=entry, **finding)
    await connection.execute(statement.on_conflict_do_update(index_elements=["entry", "search"], set_=dict(changes)))


async def _recount(connection: AsyncConnection, id: str) -> None:
    """Bring an entry's counts, gains and state up to its findings."""
    sums = select(*(func.coalesce(func.sum(findings.c[name]), 0).label(name) for name in COUNTS))
    counts = (await connection.execute(sums.where(findings.c.entry == id))).one()._asdict()
    gains = int(counts["successes"] + counts["wins"])
    trials = gains + int(counts["failures"] + counts["losses"])
    first = select(*(findings.c[name] for name in BEST)).where(findings.c.entry == id, findings.c.low.is_not(None))
    best = (await connection.execute(first.order_by(findings.c.low.desc(), findings.c.search).limit(1))).one_or_none()
    changes = {**counts, "worth": worth(gains, trials, None if best is None else best.low)}
    changes |= {} if best is None else best._asdict()
    row = update(knowledge).where(knowledge.c.id == id)
    await connection.execute(row.values(**changes))
    state = KnowledgeState.ACTIVE if pays(gains, trials) else KnowledgeState.RETIRED
    await connection.execute(row.where(knowledge.c.held.is_(False)).values(state=state))


async def _get(connection: AsyncConnection, id: str) -> KnowledgeEntryRecord:
    row = (
        await connection.execute(select_record(knowledge, KnowledgeEntryRecord).where(knowledge.c.id == id))
    ).one_or_none()
    if row is None:
        raise RecordNotFound(f"there is no knowledge {id}")
    return KnowledgeEntryRecord(**row._asdict())
