"""Column types: storage of our values in a database, the same on SQLite and PostgreSQL."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, LargeBinary, Text
from sqlalchemy.types import TypeDecorator

COMPRESSION_LEVEL = 6
"""zlib's own default: PTX shrinks about eightfold, at tens of megabytes a second."""
NANO = 1_000_000_000
"""Parts of a dollar that are kept: a token of the cheapest models costs some tens of them."""


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


class TimestampColumn(TypeDecorator[datetime]):
    """A timestamp, UTC when written and when read. SQLite keeps no zone and PostgreSQL answers in the session's."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Mark the time as UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class EnumColumn(TypeDecorator[StrEnum]):
    """A member of an enumeration, as its value."""

    impl = Text
    cache_ok = True

    def __init__(self, words: type[StrEnum]) -> None:
        super().__init__()
        self.words = words

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Return the member's value: psycopg would send its name."""
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """Return the member of the enumeration."""
        return None if value is None else self.words(value)


class TextColumn(TypeDecorator[str]):
    """Text that a candidate may have influenced.

    NUL, which PostgreSQL refuses, and lone surrogates, which have no UTF-8 form, are replaced. Otherwise a hostile
    message could prevent its own verdict from being stored.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace characters that a database cannot hold."""
        return None if value is None else value.replace("\0", "\ufffd").encode(errors="replace").decode()


class JsonColumn(TypeDecorator[Any]):
    """A value as JSON text; dataclasses are written as objects. `read` converts parsed JSON to what records hold."""

    impl = Text
    cache_ok = True

    def __init__(self, read: Callable[[Any], object]) -> None:
        super().__init__()
        self.read = read

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        """Write compactly, in ASCII; NaN and infinities are refused."""
        if value is None:
            return None
        return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> object:
        """Parse."""
        return None if value is None else self.read(json.loads(value))


class DollarColumn(TypeDecorator[float]):
    """US dollars, stored as whole billionths, so that sums and limits stay exact after any number of additions."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> int | None:
        """Round to a billionth."""
        return None if value is None else round(value * NANO)

    def process_result_value(self, value: int | None, dialect: Dialect) -> float | None:
        """Convert to dollars; sums come as decimals from PostgreSQL."""
        return None if value is None else int(value) / NANO


class CompressedColumn(TypeDecorator[str]):
    """Text as zlib-compressed UTF-8, for documents of tens of kilobytes and more."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """Compress; lone surrogates, which have no UTF-8 form, are replaced."""
        return None if value is None else zlib.compress(value.encode(errors="replace"), COMPRESSION_LEVEL)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """Decompress."""
        return None if value is None else zlib.decompress(value).decode()


def _plain(value: object) -> object:
    """Convert values that JSON cannot write: dataclasses, and mappings other than dicts."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
