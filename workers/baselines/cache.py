"""Figures on disk: one JSON file per figure, named by the hash of everything that it depends on.

Files are replaced as a whole, so that processes may share a folder. If two write at once, the later file stays.
"""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from workers.baselines.messages import CopySize
from workers.protocol import PROTOCOL_VERSION, Device
from workers.protocol.base import WireModel
from workers.protocol.plan import Digest

MAX_AGE_S = 24 * 3600.0
"""Seconds after which a figure is measured again: cards drift with temperature and neighbours; a day is our choice."""


class FigureKey(WireModel):
    """Everything that any figure depends on."""

    device: Device
    versions: dict[str, str]
    """Versions of torch, triton, liger, driver and cuda, and the card's name."""
    protocol_version: int = PROTOCOL_VERSION

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        body = self.model_copy(update={"versions": dict(sorted(self.versions.items()))})
        return hashlib.sha256(body.model_dump_json().encode()).hexdigest()


class BaselineKey(FigureKey):
    """Everything that the baselines of a shape depend on."""

    operator: Digest
    shape: str
    pacer: Digest
    """Identity of the pacer's bundle with this shape's plan alone."""


class CopyKey(FigureKey):
    """Everything that the time of a copy depends on."""

    size: CopySize


Key = TypeVar("Key", bound=FigureKey)
Figure = TypeVar("Figure", bound=WireModel)


class _Entry(WireModel, Generic[Key, Figure]):
    key: Key
    measured_at: float
    """Seconds since the epoch."""
    figure: Figure


class FigureCache(Generic[Key, Figure]):
    """A folder of figures of one kind.

    Args:
        folder: Folder of the files; created when the first one is written.
        key: Class of the keys.
        figure: Class of the figures.
    """

    def __init__(self, folder: Path, key: type[Key], figure: type[Figure]) -> None:
        self._folder = folder
        generic: Any = _Entry
        self._entry: type[_Entry[Key, Figure]] = generic[key, figure]

    def find(self, key: Key) -> Figure | None:
        """Return the figure of a key; None if it is missing, too old or unreadable."""
        with suppress(OSError, ValidationError):
            entry = self._entry.model_validate_json(self._path(key).read_bytes())
            if entry.key == key and 0 <= time.time() - entry.measured_at < MAX_AGE_S:
                return entry.figure
        return None

    def keep(self, key: Key, figure: Figure) -> None:
        """Store a figure, in place of an older one.

        Raises:
            OSError: If the folder cannot be written to.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        entry = self._entry(key=key, measured_at=time.time(), figure=figure)
        with NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as file:
            try:
                file.write(entry.model_dump_json().encode())
                file.close()
                Path(file.name).replace(self._path(key))
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise

    def _path(self, key: Key) -> Path:
        return self._folder / f"{key.digest}.json"
