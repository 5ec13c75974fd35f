"""Operators, by digest and by name."""

from sqlalchemy import func, select

from archive.columns import now
from archive.errors import NotFound
from archive.records import OperatorRecord
from archive.store.engine import Database, select_record, upsert
from archive.tables import operators


class Operators:
    """What searches were about."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, digest: str, name: str, document: str) -> None:
        """Keep an operator. Idempotent by digest."""
        async with self._database.write() as connection:
            values = {"digest": digest, "name": name, "document": document, "created_at": now()}
            await connection.execute(upsert(connection, operators).values(values).on_conflict_do_nothing())

    async def get(self, digest: str) -> OperatorRecord:
        """One operator.

        Raises:
            NotFound: If none has that digest.
        """
        async with self._database.read() as connection:
            statement = select_record(operators, OperatorRecord).where(operators.c.digest == digest)
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            raise NotFound(f"there is no operator with digest {digest}")
        return OperatorRecord(**row._asdict())

    async def latest(self, name: str) -> OperatorRecord:
        """The newest operator of a name.

        Raises:
            NotFound: If none has that name.
        """
        newest = operators.c.created_at.desc(), operators.c.digest
        async with self._database.read() as connection:
            statement = select_record(operators, OperatorRecord).where(operators.c.name == name)
            row = (await connection.execute(statement.order_by(*newest).limit(1))).one_or_none()
        if row is None:
            raise NotFound(f"there is no operator called '{name}'")
        return OperatorRecord(**row._asdict())

    async def list(self) -> list[OperatorRecord]:
        """The newest operator of each name, by name."""
        age = func.row_number().over(
            partition_by=operators.c.name, order_by=(operators.c.created_at.desc(), operators.c.digest)
        )
        aged = select(operators.c.digest, age.label("age")).subquery()
        statement = (
            select_record(operators, OperatorRecord)
            .join(aged, aged.c.digest == operators.c.digest)
            .where(aged.c.age == 1)
            .order_by(operators.c.name)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(statement)).all()
        return [OperatorRecord(**row._asdict()) for row in rows]
