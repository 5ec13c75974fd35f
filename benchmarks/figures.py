"""Figures that take long to make: a file that is whole after every row, and a limit on the time."""

import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.record import machine, versions
from tests.gpu.judging import cards
from workers.protocol import Device


class Figures:
    """Rows of one file, which is written anew with every row, so that an end at any time loses nothing.

    Attributes:
        rows: What is in the file.
    """

    def __init__(self, folder: Path, name: str, number: int = 0) -> None:
        """Begin `<folder>/<name>.json`; `number` is the card's that the figures are of."""
        card = next((card for card in cards() if card.number == number), None)
        driver = {} if card is None else {"driver": card.driver, "cuda": card.cuda}
        self.rows: list[Mapping[str, Any]] = []
        self._path = folder / f"{name}.json"
        self._document = {
            "machine": {**machine(), "gpu": None if card is None else card.name},
            "versions": {**versions(), **driver},
            "date": datetime.now(UTC).date().isoformat(),
            "command": " ".join(["python -m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]]),
        }
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, row: Mapping[str, Any], said: str) -> None:
        """Add a row, and say so."""
        self.rows.append(row)
        self._write()
        print(said, flush=True)

    def conclude(self, **more: Any) -> None:
        """Add what follows from the rows."""
        self._document.update(more)
        self._write()

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps({**self._document, "rows": self.rows}, indent=1) + "\n")
        fresh.replace(self._path)


class Allowance:
    """Seconds that a part may take; `spent` says whether they are over."""

    def __init__(self, limit_s: float) -> None:
        self._until = time.monotonic() + limit_s

    @property
    def spent(self) -> bool:
        """Whether to stop."""
        return time.monotonic() > self._until


def device_of(number: int) -> Device:
    """The hardware class of a card of this machine.

    Raises:
        SystemExit: If there is no such card.
    """
    names = {card.number: card.device for card in cards()}
    if names.get(number) is None:
        raise SystemExit(f"cuda:{number} is no card that is measured on; found: {names or 'none'}")
    return Device.parse(str(names[number]))
