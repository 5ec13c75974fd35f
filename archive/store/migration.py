"""Migration of a database to the newest schema."""

import asyncio
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util import CommandError

import migrations
from archive.errors import UnreadableDump
from archive.store.engine import translated


def migration_config(url: str) -> Config:
    """Return Alembic's configuration for a database, with the scripts of this installation."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.attributes["url"] = url
    return config


async def migrate(url: str) -> None:
    """Create or update the schema. Safe to call from several processes at once; a second call changes nothing.

    Raises:
        DatabaseUnavailable: If the database does not answer.
        UnreadableDump: If the schema is older than the baseline, or newer than this release.
    """
    with translated():
        await asyncio.to_thread(_upgrade, migration_config(url))


def _upgrade(config: Config) -> None:
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        if not isinstance(error.__cause__, ResolutionError):
            raise
        found, first = error.__cause__.argument, ScriptDirectory.from_config(config).get_base() or ""
        remedy = (
            "run `reef migrate` of commit c57166e (2026-11-26) first, then of this release"
            if found < first
            else "use the release that wrote it, or a newer one"
        )
        raise UnreadableDump(
            f"the archive's schema is {found}, and this release reads {first} and later: {remedy}"
        ) from error
