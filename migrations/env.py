"""Runs migrations on SQLite and PostgreSQL, in one transaction that only one process at a time can hold."""

from typing import Literal

from alembic import context
from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.types import TypeDecorator

from archive.store.engine import tune_sqlite
from archive.tables import metadata

SYNC_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
LOCK = 0x6B65726E656C
"""Key of the advisory lock on PostgreSQL: the bytes of `kernel`."""


def plain_type(kind: str, item: object, autogenerate: object) -> str | Literal[False]:
    """Write our column types into new revisions as what they are underneath: a revision must outlive the code."""
    return f"sa.{item.impl!r}" if kind == "type" and isinstance(item, TypeDecorator) else False


def migrate() -> None:
    """Apply what is asked for to the database that `config.attributes` names."""
    url = make_url(context.config.attributes["url"])
    backend = url.get_backend_name()
    engine = create_engine(url.set(drivername=SYNC_DRIVERS[backend]), poolclass=NullPool)
    if backend == "sqlite":
        tune_sqlite(engine, begin="BEGIN IMMEDIATE")
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=metadata,
            render_as_batch=backend == "sqlite",
            transactional_ddl=True,
            render_item=plain_type,
        )
        with context.begin_transaction():
            if backend == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            context.run_migrations()


migrate()
