"""Bringing a database to the newest schema."""

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config

import migrations
from archive.store.engine import translated


def migration_config(url: str) -> Config:
    """Alembic's configuration for a database, with the scripts wherever this package is installed."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.attributes["url"] = url
    return config


async def migrate(url: str) -> None:
    """Create or update the schema. Safe to call from several processes at once; a second call changes nothing.

    Raises:
        Unavailable: If the database does not answer.
    """
    with translated():
        await asyncio.to_thread(command.upgrade, migration_config(url), "head")
