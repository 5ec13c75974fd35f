"""Figures that take long to make: files that are whole after every row, limits on the time, shares of the work."""

import argparse
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.record import command_line, machine, versions
from tests.gpu.judging import cards
from workers.protocol import Device

Row = dict[str, Any]


class FigureRows:
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
            "command": command_line(),
        }
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, row: Mapping[str, Any], said: str) -> None:
        """Add a row, and say so."""
        self.rows.append(row)
        self._write()
        print(said, flush=True)

    def adopt(self, path: Path) -> Row:
        """A finished file, whose machine, versions and date this one takes over with its rows."""
        document: Row = json.loads(path.read_text())
        self._document |= {name: document[name] for name in ("machine", "versions", "date")}
        return document

    def conclude(self, **more: Any) -> None:
        """Add what follows from the rows."""
        self._document.update(more)
        self._write()

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps({**self._document, "rows": self.rows}, indent=1) + "\n")
        fresh.replace(self._path)


class TimeAllowance:
    """Seconds that a part may take; `spent` says whether they are over."""

    def __init__(self, limit_s: float) -> None:
        self._until = time.monotonic() + limit_s

    @property
    def spent(self) -> bool:
        """Return True if the time is used up."""
        return time.monotonic() > self._until

    @property
    def left_s(self) -> float:
        """Seconds that are left; not below zero."""
        return max(0.0, self._until - time.monotonic())


def device_of(number: int) -> Device:
    """The hardware class of a card of this machine.

    Raises:
        SystemExit: If there is no such card.
    """
    names = {card.number: card.device for card in cards()}
    if names.get(number) is None:
        raise SystemExit(f"cuda:{number} is no card that is measured on; found: {names or 'none'}")
    return Device.parse(str(names[number]))


def visible_card(number: int) -> str:
    """Return the name by which child processes are to see a card alone, and by which `nvidia-smi` knows it.

    This process may itself see some cards only, such as one of two. Then its first card is another card of the host.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return named.split(",")[number] if named else str(number)


def read_lines(path: Path) -> list[Row]:
    """The lines of a file, but for a last one that was cut short."""
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def read_folder(folder: Path) -> list[Row]:
    """The lines of all files of a folder, in the order of their names."""
    return [line for path in sorted(folder.glob("*.jsonl")) for line in read_lines(path)]


class LineLog:
    """The file of lines; every line is there as soon as it is known.

    Attributes:
        rows: All of them, former sessions' too.
        session: When this one began; lines carry it.
    """

    def __init__(self, path: Path) -> None:
        self.session = time.time()
        self.rows: list[Row] = []
        if path.exists():
            self.rows = read_lines(path)
            path.write_text("".join(f"{json.dumps(row)}\n" for row in self.rows))
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1)

    def add(self, row: Row) -> None:
        """Write a line."""
        row = {"session": self.session, **row}
        self.rows.append(row)
        self._file.write(json.dumps(row) + "\n")

    def close(self) -> None:
        """End it."""
        self._file.close()


def share_of(text: str) -> tuple[int, int]:
    """Number of the first, and how many there are to the next: `1/4` is every fourth from the second."""
    first, _, step = text.partition("/")
    if not (first.isdecimal() and step.isdecimal() and int(first) < int(step)):
        raise argparse.ArgumentTypeError(f"'{text}' is no share, such as 0/4")
    return int(first), int(step)
