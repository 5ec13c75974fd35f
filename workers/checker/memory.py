"""The checker's memory: answers that will be asked for again, as many as fit on the card."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from workers.checker.answers import Answer


class Key(NamedTuple):
    """What timed content, and so its answer, depends on: the operator's digest, and what the bench chose."""

    operator: str
    shape: str
    seed: str
    stream: int


@dataclass(frozen=True)
class Entry:
    """Answers for all outputs on one content, and whether they are widened."""

    answers: tuple[Answer, ...]
    widened: bool

    @property
    def bytes(self) -> int:
        """What they take on the card."""
        return sum(answer.bytes for answer in self.answers)


class Memory:
    """The answers that fit on the card; those that were not asked for longest are forgotten first."""

    def __init__(self, capacity_bytes: int) -> None:
        """Start empty."""
        self._capacity_bytes = capacity_bytes
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._held_bytes = 0

    def recall(self, key: Key, *, widened: bool) -> tuple[Answer, ...] | None:
        """The answers for a content, or None; widened ones are as good where the others will do."""
        entry = self._entries.get(key)
        if entry is None or (widened and not entry.widened):
            return None
        self._entries.move_to_end(key)
        return entry.answers

    def keep(self, key: Key, answers: tuple[Answer, ...], *, widened: bool) -> None:
        """Remember answers in place of what was known for the content."""
        self._forget(key)
        entry = Entry(answers, widened)
        self._entries[key] = entry
        self._held_bytes += entry.bytes
        while self._held_bytes > self._capacity_bytes:
            self._forget(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._held_bytes = 0

    def _forget(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._held_bytes -= entry.bytes
