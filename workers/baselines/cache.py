"""Figures on disk: one JSON file per figure, named by the hash of everything that it depends on.

Files are replaced as a whole, so that processes may share a folder. If two write at once, the later file stays.
"""

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TypeVar

from pydantic import ValidationError

from workers.baselines.messages import CopySize
from workers.protocol import PROTOCOL_VERSION, Device
from workers.protocol.base import WireModel
from workers.protocol.plan import Digest

MAX_AGE_S = 24 * 3600.0
"""Seconds after which a figure is measured again: cards drift with temperature and neighbours; a day is our choice."""
LOOK_S = 0.5
"""Seconds between two attempts to get a turn; measuring takes tens of seconds."""


class FigureKey(WireModel):
    """Everything that any figure depends on."""

    device: Device
    versions: dict[str, str]
    """Versions of torch, triton, liger, helion, driver and cuda, and the card's name."""
    protocol_version: int = PROTOCOL_VERSION

    @property
    def canonical(self) -> str:
        """The canonical form: equal for equal keys."""
        return self.model_copy(update={"versions": dict(sorted(self.versions.items()))}).model_dump_json()

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()


class BaselineKey(FigureKey):
    """Everything that the baselines of a shape depend on."""

    operator: Digest
    shape: str
    pacer: Digest
    """Identity of the pacer's bundle with this shape's plan alone."""


class CopyKey(FigureKey):
    """Everything that the time of a copy depends on."""

    size: CopySize


Figure = TypeVar("Figure", bound=WireModel)


class _Entry(WireModel):
    key: str
    measured_at: float
    """Seconds since the epoch."""
    figure: str
    """The figure as JSON."""


class FigureCache:
    """A folder of figures.

    Args:
        folder: Folder of the files; created when the first one is written.
        stopped: Returns True if a wait for another process is to end.
    """

    def __init__(self, folder: Path, stopped: Callable[[], bool] = lambda: False) -> None:
        self._folder = folder
        self._stopped = stopped

    def find(self, key: FigureKey, kind: type[Figure]) -> Figure | None:
        """Return the figure of a key; None if it is missing, too old or unreadable."""
        with suppress(OSError, ValidationError):
            entry = _Entry.model_validate_json(self._path(key).read_bytes())
            if entry.key == key.canonical and 0 <= time.time() - entry.measured_at < MAX_AGE_S:
                return kind.model_validate_json(entry.figure)
        return None

    def keep(self, key: FigureKey, figure: WireModel) -> None:
        """Store a figure, in place of an older one.

        Raises:
            OSError: If the folder cannot be written to.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        entry = _Entry(key=key.canonical, measured_at=time.time(), figure=figure.model_dump_json())
        with NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as file:
            try:
                file.write(entry.model_dump_json().encode())
                file.close()
                Path(file.name).replace(self._path(key))
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise

    @contextmanager
    def turn(self, key: FigureKey) -> Iterator[None]:
        """Wait until no other process measures the figure of a key, and keep others out until the context ends.

        Executors that share a card need the same figures at the same time; whoever comes second finds them here.

        Raises:
            OSError: If the folder cannot be written to; `TimeoutError` if the wait was ended.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._lock(key).open("w") as file:
            while not _is_locked(file):
                if self._stopped():
                    raise TimeoutError("another process was still measuring it")
                time.sleep(LOOK_S)
            yield

    def is_measured(self, key: FigureKey) -> bool:
        """Return True if some process measures the figure of a key now."""
        try:
            with self._lock(key).open() as file:
                return not _is_locked(file)
        except FileNotFoundError:
            return False

    def _lock(self, key: FigureKey) -> Path:
        return self._folder / f"{key.digest}.lock"

    def _path(self, key: FigureKey) -> Path:
        return self._folder / f"{key.digest}.json"


def _is_locked(file: IO[str]) -> bool:
    """Return True if the file's lock is this process's now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
