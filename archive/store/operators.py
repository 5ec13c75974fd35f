"""Operators, by digest and by name."""

from collections.abc import Collection

from sqlalchemy import func, select

from archive.column_types import now
from archive.errors import RecordNotFound
from archive.records import MutationReportRecord, OperatorRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import mutation_reports, operators


class OperatorStore:
    """Operators of searches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, digest: str, name: str, document: str) -> None:
        """Store an operator. Idempotent by digest."""
        async with self._database.write() as connection:
            values = {"digest": digest, "name": name, "document": document, "created_at": now()}
            await connection.execute(upsert(connection, operators).values(values).on_conflict_do_nothing())

    async def get(self, digest: str) -> OperatorRecord:
        """Return one operator.

        Raises:
            RecordNotFound: If none has that digest.
        """
        statement = select_record(operators, OperatorRecord).where(operators.c.digest == digest)
        return await self._database.one(OperatorRecord, statement, f"there is no operator with digest {digest}")

    async def latest(self, name: str) -> OperatorRecord:
        """Return the newest operator of a name.

        Raises:
            RecordNotFound: If none has that name.
        """
        newest = operators.c.created_at.desc(), operators.c.digest
        statement = select_record(operators, OperatorRecord).where(operators.c.name == name)
        return await self._database.one(
            OperatorRecord, statement.order_by(*newest).limit(1), f"there is no operator called '{name}'"
        )

    async def keep_mutation_report(self, digest: str, verdict: str, document: str) -> None:
        """Store the mutation report of an operator in place of an earlier one. Idempotent.

        Raises:
            RecordConflict: If the operator is unknown.
        """
        said = {"verdict": verdict, "document": document, "created_at": now()}
        async with self._database.write() as connection:
            statement = upsert(connection, mutation_reports).values(operator=digest, **said)
            await connection.execute(statement.on_conflict_do_update(index_elements=["operator"], set_=said))

    async def mutation_report(self, digest: str) -> MutationReportRecord:
        """Return the last mutation report of an operator.

        Raises:
            RecordNotFound: If there is none yet.
        """
        record = (await self.mutation_reports_of([digest])).get(digest)
        if record is None:
            raise RecordNotFound(
                "this operator has no mutation report yet; submit a search for it, or run reef operators check"
            )
        return record

    async def mutation_reports_of(self, digests: Collection[str]) -> dict[str, MutationReportRecord]:
        """Return the last mutation reports of operators by digest; operators without one are left out."""
        statement = select_record(mutation_reports, MutationReportRecord).where(
            mutation_reports.c.operator.in_(digests)
        )
        return {each.operator: each for each in await self._database.all(MutationReportRecord, statement)}

    # Last, because from here on `list` means this method.
    async def list(self, *, limit: int | None = None, after: str | None = None) -> list[OperatorRecord]:
        """Return the newest operator of each name, by name.

        Args:
            limit: Maximum number of operators; all if None.
            after: Only names after this one.
        """
        age = func.row_number().over(
            partition_by=operators.c.name, order_by=(operators.c.created_at.desc(), operators.c.digest)
        )
        aged = select(operators.c.digest, age.label("age")).subquery()
        statement = (
            select_record(operators, OperatorRecord)
            .join(aged, aged.c.digest == operators.c.digest)
            .where(aged.c.age == 1)
            .order_by(operators.c.name)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(operators.c.name > after)
        return await self._database.all(OperatorRecord, statement)
