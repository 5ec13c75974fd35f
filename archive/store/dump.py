"""Dump and load of a whole archive as one file: from SQLite to PostgreSQL, from one machine to another.

The file is gzip-compressed lines of JSON: a header; for each table its name and columns, then one line per row; at last
the number of rows. Values are written as the columns hold them, timestamps in ISO 8601 and bytes in base64, so the file
is the same for every database. It holds everything that the archive does: keep it as safe.
"""

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Column, LargeBinary, MetaData, Table, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import TypeDecorator

from archive.column_types import TimestampColumn
from archive.errors import RecordConflict, UnreadableDump
from archive.store.engine import Database
from archive.tables import metadata

FORMAT = "kernelreef archive"
FORMAT_VERSION = 1
ROWS_AT_ONCE = 500
"""Rows read or written together: some megabytes if they hold bundles."""


class ArchiveDump:
    """Writes an archive to a file, and fills an empty one from it. Both read and write files as they go."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dump(self, path: Path) -> dict[str, int]:
        """Write a consistent snapshot of everything into a new file.

        Returns:
            The number of rows by table.

        Raises:
            OSError: If the file exists, or cannot be written.
        """
        counts = {}
        with _created(path) as file:
            async with self._database.read(steady=True) as connection:
                if connection.dialect.name == "postgresql":  # SQLite reads one snapshot by itself.
                    await connection.execution_options(isolation_level="REPEATABLE READ")
                revision = await _revision(connection)
                _write(file, {"format": FORMAT, "version": FORMAT_VERSION, "revision": revision})
                for table in metadata.sorted_tables:
                    counts[table.name] = await _dump_table(connection, _as_stored(table), file)
            _write(file, {"rows": counts})
        return counts

    async def load(self, path: Path) -> dict[str, int]:
        """Fill an empty archive, all or nothing.

        Returns:
            The number of rows by table.

        Raises:
            RecordConflict: If the archive is not empty, or its schema is of another release than the file's.
            UnreadableDump: If the file is not a dump, or is incomplete.
            OSError: If it cannot be opened.
        """
        with gzip.open(path, "rt", encoding="ascii") as file:
            lines = _lines(file)
            revision = _read_header(lines)
            async with self._database.write() as connection:
                await _require_empty(connection, revision)
                filling = _Filling(connection)
                for line in lines:
                    await filling.take(line)
                counts = filling.finished()
                await _restart_sequences(connection)
        return counts


class _Filling:
    """State of a load: the tables that a file fills."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._table: Table | None = None
        self._names: list[str] = []
        self._rows: list[list[Any]] = []
        self._counts: dict[str, int] = {}
        self._promised: dict[str, int] | None = None

    async def take(self, line: object) -> None:
        """Parse one line: a row, the beginning of a table, or the end."""
        match line:
            case list() if self._table is not None and len(line) == len(self._names):
                self._rows.append(line)
                if len(self._rows) >= ROWS_AT_ONCE:
                    await self._flush()
            case {"table": str(name), "columns": list(names)} if name in metadata.tables:
                await self._flush()
                self._table, self._names = _as_stored(metadata.tables[name]), names
                self._counts[name] = 0
            case {"rows": dict(promised)}:
                await self._flush()
                self._promised = promised
            case _:
                raise UnreadableDump(f"not a line of an archive: {str(line)[:80]}")

    def finished(self) -> dict[str, int]:
        """Return the rows by table, after a check that the file is complete."""
        if self._promised != self._counts:
            raise UnreadableDump("the file ends before the archive does")
        return self._counts

    async def _flush(self) -> None:
        if self._table is None or not self._rows:
            return
        columns = [self._table.c[name] for name in self._names]
        values = [
            {column.name: _read(column, value) for column, value in zip(columns, row, strict=True)}
            for row in self._rows
        ]
        await self._connection.execute(insert(self._table), values)
        self._counts[self._table.name] += len(values)
        self._rows.clear()


def _as_stored(table: Table) -> Table:
    """Return a copy of a table whose columns have the database's raw types."""
    columns = [
        Column(
            column.name,
            column.type.impl if isinstance(column.type, TypeDecorator) and not _is_moment(column) else column.type,
        )
        for column in table.columns
    ]
    return Table(table.name, MetaData(), *columns)


def _is_moment(column: Column[Any]) -> bool:
    return isinstance(column.type, TimestampColumn)


async def _dump_table(connection: AsyncConnection, table: Table, file: IO[str]) -> int:
    columns = list(table.columns)
    _write(file, {"table": table.name, "columns": [column.name for column in columns]})
    count = 0
    async with connection.stream(select(table)) as result:
        async for rows in result.partitions(ROWS_AT_ONCE):
            count += len(rows)
            for row in rows:
                _write(file, [_written(value) for value in row])
    return count


def _written(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def _read(column: Column[Any], value: object) -> object:
    """Decode a column's value from a file.

    Raises:
        UnreadableDump: If it is not a value of the column.
    """
    try:
        if value is not None and _is_moment(column):
            return datetime.fromisoformat(str(value))
        if value is not None and isinstance(column.type, LargeBinary):
            return base64.b64decode(str(value), validate=True)
    except ValueError as error:
        raise UnreadableDump(f"{column.table.name}.{column.name} cannot be {str(value)[:40]!r}") from error
    return value


def _write(file: IO[str], line: object) -> None:
    file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")


@contextmanager
def _created(path: Path) -> Iterator[IO[str]]:
    """Open a new file that is removed if it is not completed."""
    with gzip.open(path, "xt", encoding="ascii", compresslevel=6) as file, ExitStack() as undo:
        undo.callback(path.unlink)
        yield file
        undo.pop_all()


def _lines(file: IO[str]) -> Iterator[Any]:
    try:
        for line in file:
            yield json.loads(line)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableDump(f"the file is not an archive, or is incomplete: {error}") from error


def _read_header(lines: Iterator[Any]) -> str:
    """Return the schema's revision of a dump."""
    match next(lines, None):
        case {"format": str(name), "version": int(version), "revision": str(revision)} if name == FORMAT:
            if version > FORMAT_VERSION:
                raise UnreadableDump(f"the file is of format {version}; this release reads {FORMAT_VERSION}")
            return revision
        case _:
            raise UnreadableDump("the file is not an archive of Kernelreef")


async def _revision(connection: AsyncConnection) -> str:
    return str((await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one())


async def _require_empty(connection: AsyncConnection, revision: str) -> None:
    own = await _revision(connection)
    if own != revision:
        raise RecordConflict(
            f"the file's schema is {revision}, this release's is {own}: load it with the release that wrote it, then "
            "run `reef migrate` with this one"
        )
    for table in metadata.sorted_tables:
        if (await connection.execute(select(text("1")).select_from(table).limit(1))).first():
            raise RecordConflict(f"the archive is not empty: there are {table.name}")


async def _restart_sequences(connection: AsyncConnection) -> None:
    """Advance PostgreSQL's sequences to the last row; SQLite does so by itself."""
    if connection.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is None:
            continue
        sequence = func.pg_get_serial_sequence(table.name, column.name)
        last = select(func.coalesce(func.max(column), 1), func.max(column).is_not(None)).subquery()
        await connection.execute(select(func.setval(sequence, last.c[0], last.c[1])))
