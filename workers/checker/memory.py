"""The checker's memory: answers that will be asked for again, as many as fit on the card."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import torch

from workers.checker.answers import Answer


class Key(NamedTuple):
    """What a content, and so its answer, depends on: the operator's digest, and what the bench chose."""

    operator: str
    shape: str
    draw: str
    seed: str
    stream: int


@dataclass(frozen=True)
class Entry:
    """What is known of one content.

    Attributes:
        answers: For all outputs.
        widened: Whether they allow what nudged inputs do to results.
        inputs: The values, where making them again is dear; empty otherwise.
    """

    answers: tuple[Answer, ...]
    widened: bool
    inputs: tuple[torch.Tensor, ...] = ()

    @property
    def bytes(self) -> int:
        """What they take on the card."""
        return sum(answer.bytes for answer in self.answers) + sum(tensor.nbytes for tensor in self.inputs)


class Memory:
    """The answers that fit on the card; those that were not asked for longest are forgotten first."""

    def __init__(self, capacity_bytes: int) -> None:
        """Start empty."""
        self._capacity_bytes = capacity_bytes
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._held_bytes = 0

    def recall(self, key: Key, *, widened: bool) -> Entry | None:
        """What is known of a content, or None; widened answers are as good where the others will do."""
        entry = self._entries.get(key)
        if entry is None or (widened and not entry.widened):
            return None
        self._entries.move_to_end(key)
        return entry

    def keep(self, key: Key, entry: Entry) -> None:
        """Remember this in place of what was known of the content."""
        self._forget(key)
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
