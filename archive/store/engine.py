"""The database: connections, transactions, and the translation of its errors."""

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Executable, Select, Table, event, exc, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from archive.errors import ArchiveError, DatabaseUnavailable, RecordConflict, RecordNotFound, Unstorable

Record = TypeVar("Record")

BUSY_TIMEOUT_MS = 10_000
"""Timeout of SQLite for another process's write; ours take milliseconds."""
BUSY_PAUSE_S = 0.01
"""Seconds before a statement that SQLite refused as busy is tried again."""
READERS = 5
"""Connections for reading, SQLAlchemy's own default."""
CONNECTIONS = 15
"""Connections to PostgreSQL, as many as SQLAlchemy takes by default. All of them are kept open: SQLAlchemy would close
those beyond five after each use, and opening one costs both sides more than ten queries."""

IDLE_S = 5.0
"""Seconds of idleness after which a connection to PostgreSQL is tested before its use."""
TIMEOUTS = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "options": "-c idle_in_transaction_session_timeout=4000",
}
"""Timeouts of a connection to PostgreSQL for a silent peer, on both sides: without them, a cut cable
would leave a call waiting for hours, and a transaction begun before the cut would keep its locks. In seconds, except
`tcp_user_timeout` and the option in milliseconds."""

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg"}
"""The driver we use for each database."""

Upsert = sqlite.Insert | postgresql.Insert


class Database:
    """Transactions on one database.

    SQLite has one writer at a time, so writes share one connection and wait for it in its pool; readers see the last
    commit meanwhile. PostgreSQL uses one pool for both.
    """

    def __init__(self, reader: AsyncEngine, writer: AsyncEngine) -> None:
        self._reader = reader
        self._is_sqlite = reader.dialect.name == "sqlite"
        self._writer = writer

    @classmethod
    def open(cls, url: str) -> Self:
        """Prepare connections; the first is opened when it is needed.

        Raises:
            ValueError: If the URL names neither SQLite nor PostgreSQL.
        """
        parsed = make_url(url)
        backend = parsed.get_backend_name()
        if backend not in DRIVERS:
            raise ValueError(f"the archive runs on {' or '.join(DRIVERS)}, not on '{backend}'")
        address = parsed.set(drivername=DRIVERS[backend])
        if backend == "postgresql":
            engine = create_async_engine(address, pool_size=CONNECTIONS, max_overflow=0, connect_args=TIMEOUTS)
            _ping_idle(engine.sync_engine)
            return cls(engine.execution_options(isolation_level="AUTOCOMMIT"), engine)
        reader = create_async_engine(address, pool_size=READERS)
        writer = create_async_engine(address, pool_size=1, max_overflow=0)
        tune_sqlite(reader.sync_engine, begin=None)
        tune_sqlite(writer.sync_engine, begin="BEGIN IMMEDIATE")
        return cls(reader, writer)

    @asynccontextmanager
    async def read(self, *, steady: bool = False) -> AsyncIterator[AsyncConnection]:
        """Open a connection for read-only queries.

        Each query is a transaction of its own, which saves two round trips. With `steady` all queries are one
        transaction, and rows can be streamed.
        """
        with translated():
            async with (self._writer if steady and not self._is_sqlite else self._reader).connect() as connection:
                if steady and self._is_sqlite:
                    await connection.exec_driver_sql("BEGIN")
                yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction: committed at the end of the block, rolled back if it raises."""
        with translated():
            async with self._writer.begin() as connection:
                yield connection

    async def all(self, record: type[Record], statement: Executable) -> list[Record]:
        """Return a record for each row of a query, in the order of the rows."""
        async with self.read() as connection:
            return [record(**row._asdict()) for row in await connection.execute(statement)]

    async def first(self, record: type[Record], statement: Executable) -> Record | None:
        """Return the record of a query's first row; None without rows."""
        return next(iter(await self.all(record, statement)), None)

    async def one(self, record: type[Record], statement: Executable, missing: str) -> Record:
        """Return the record of a query's first row.

        Raises:
            RecordNotFound: If there is no row, with `missing` as its text.
        """
        found = await self.first(record, statement)
        if found is None:
            raise RecordNotFound(missing)
        return found

    async def ping(self) -> None:
        """Check that the database answers.

        Raises:
            DatabaseUnavailable: If there is none.
        """
        async with self.read() as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Close every connection."""
        await self._reader.dispose()
        await self._writer.dispose()


@contextmanager
def translated() -> Iterator[None]:
    """Turn SQLAlchemy's errors into the archive's."""
    try:
        yield
    except exc.IntegrityError as error:
        raise RecordConflict(_first_line(error)) from error
    except (exc.OperationalError, exc.InterfaceError, exc.TimeoutError) as error:
        raise DatabaseUnavailable(_first_line(error)) from error
    except (exc.DataError, OverflowError, UnicodeEncodeError) as error:
        # For NUL and too large numbers; for the latter in SQLite; and for lone surrogates.
        raise Unstorable("a text cannot hold NUL or half a character, nor a number more than 63 bits") from error
    except exc.SQLAlchemyError as error:
        raise ArchiveError(_first_line(error)) from error


def _ping_idle(engine: Engine) -> None:
    """Test connections that were idle for a while before their use.

    SQLAlchemy's own ping would add one round trip to each query, a third of the time of most. After a restart of the
    server one call fails as unavailable, and all old connections are dropped.
    """

    @event.listens_for(engine, "checkin")
    def _checkin(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _checkout(connection: DBAPIConnection, record: ConnectionPoolEntry, proxy: object) -> None:
        if time.monotonic() - record.info.get("used", time.monotonic()) < IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise exc.DisconnectionError(str(error)) from error


def tune_sqlite(engine: Engine, *, begin: str | None) -> None:
    """Configure SQLite's connections: write-ahead log, lock timeout, foreign keys and explicit transactions.

    A transaction that reads and then writes must begin with `BEGIN IMMEDIATE`: a deferred one fails at once, without
    waiting, if another connection has written in between.
    """

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        _write_ahead(cursor)
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if begin is not None:
            connection.exec_driver_sql(begin)


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch the database to write-ahead logging, permanently.

    If several connections switch a new database at once, SQLite refuses all but one, even with a timeout.
    """
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(BUSY_PAUSE_S)
        else:
            return


def upsert(connection: AsyncConnection, table: Table) -> Upsert:
    """Return an INSERT with ON CONFLICT, in the connection's dialect."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def select_record(table: Table, record: type) -> Select[Any]:
    """Select the columns that a record has fields for, by name: `record(**row._asdict())` makes one."""
    return select(*(table.c[field.name] for field in fields(record)))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
