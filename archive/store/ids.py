"""Short ids: the last characters of an id, or the first of a digest, as pages and tables show them."""

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import Column, select

from archive.errors import AmbiguousId, RecordNotFound
from archive.store.engine import Database
from archive.tables import candidates, exchanges, operators, remote_workers, searches, tokens

Kind = Literal["search", "candidate", "prompt", "token", "worker", "operator"]

ID_LENGTH = 36
"""Length of an id, a UUIDv7 in lower case. It begins with its time, so its end tells ids apart."""
DIGEST_LENGTH = 64
"""Length of a digest, SHA-256 in hexadecimal."""
NAMED = 5
"""Maximum number of ids that an error names."""
COLUMNS: Mapping[Kind, Column[str]] = {
    "search": searches.c.id,
    "candidate": candidates.c.id,
    "prompt": exchanges.c.id,
    "token": tokens.c.id,
    "worker": remote_workers.c.id,
    "operator": operators.c.digest,
}
"""Column that names the records of each kind."""


class IdStore:
    """Lookup of records by a part of their id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def whole(self, kind: Kind, part: str) -> str:
        """Return the id of the only record of a kind that ends in `part`; of an operator, that begins with it.

        A whole id is returned without a look into the database.

        Raises:
            RecordNotFound: If there is none.
            AmbiguousId: If there are several.
        """
        column, is_digest = COLUMNS[kind], kind == "operator"
        if len(part) >= (DIGEST_LENGTH if is_digest else ID_LENGTH):
            return part
        matches = column.startswith(part, autoescape=True) if is_digest else column.endswith(part, autoescape=True)
        async with self._database.read() as connection:
            found = (await connection.scalars(select(column).where(matches).order_by(column).limit(NAMED + 1))).all()
        if not found:
            raise RecordNotFound(f"there is no {kind} {part}")
        if len(found) > 1:
            more = " and others" if len(found) > NAMED else ""
            raise AmbiguousId(f"{part} is short for several: {', '.join(found[:NAMED])}{more}; give more characters")
        return found[0]
