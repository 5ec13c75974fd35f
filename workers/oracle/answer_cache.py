"""The checker's memory: answers that will be asked for again, as many as fit on the card."""

import secrets
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from workers.commands import SECRET_BYTES
from workers.oracle.answers import Answer

RECENT = 4
"""Subjects of each asker after which an answer that none of them asked for may be forgotten: refused candidates ask for
few, and when secrets change the former answers should make room soon."""

SUBJECTS_A_SECRET = 500
"""Subjects after which contents that are met again follow from another secret."""

ENTRY_SHARE = 24
"""An entry may take this part of the memory at most. What is larger would crowd out a whole race, and the checks need
the room themselves: beside six contents of 4.6 GB those in float64 do not fit on a card of 141 GB."""


class AnswerKey(NamedTuple):
    """What a content, and so its answer, depends on: the operator's digest, and what the bench chose."""

    operator: str
    shape: str
    draw: str
    seed: str
    stream: int


@dataclass(frozen=True)
class CachedAnswer:
    """What is known of one content.

    Attributes:
        answers: For all outputs.
        widened: Whether they allow what nudged inputs do to results.
        sums: Of the inputs that may not be changed, under the memory's key.
    """

    answers: tuple[Answer, ...]
    widened: bool
    sums: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """What they take on the card."""
        return sum(answer.bytes for answer in self.answers)


class AnswerCache:
    """Answers that fit on the card. What recent subjects asked for stays; of the rest the oldest is forgotten first.

    Candidates ask for the same answers in the same order. If those are more than fit, forgetting the oldest for the
    newest would forget every one just before it is asked for again; so what comes last is not kept instead.
    """

    def __init__(self, most_bytes: int, askers: int = 1, room_bytes: int = sys.maxsize) -> None:
        """Start empty.

        Args:
            most_bytes: How much of the card they may take.
            askers: How many judge side by side, each a subject at a time.
            room_bytes: What they and the arenas of those who ask may take together.
        """
        self._recent = RECENT * askers
        self._secret = ""
        self._most_bytes, self._room_bytes = most_bytes, room_bytes
        self._arenas: dict[object, int] = {}
        self.capacity_bytes = most_bytes
        """How much of the card they may take beside the arenas of now."""
        self.key = secrets.randbits(63) | 1
        """What sums of inputs follow from (`workers.oracle.base.OracleCard.sums`)."""
        self._entries: OrderedDict[AnswerKey, tuple[CachedAnswer, int]] = OrderedDict()
        self._held_bytes = 0
        self._turn = 0

    def begin(self) -> str:
        """Another subject is judged from now on; the secret of contents that are met again, hexadecimal."""
        if self._turn % SUBJECTS_A_SECRET == 0:
            self._secret = secrets.token_hex(SECRET_BYTES)
        self._turn += 1
        return self._secret

    def make_way(self, asker: object, arena_bytes: int) -> None:
        """Take no more from now on than the arenas leave, of which one asker's is as large as this."""
        self._arenas[asker] = arena_bytes
        self.capacity_bytes = max(0, min(self._most_bytes, self._room_bytes - sum(self._arenas.values())))
        while self._held_bytes > self.capacity_bytes:
            self._forget(next(iter(self._entries)))

    def recall(self, key: AnswerKey, *, widened: bool) -> CachedAnswer | None:
        """What is known of a content, or None; widened answers are as good where the others will do."""
        entry, _ = self._entries.get(key, (None, 0))
        if entry is None or (widened and not entry.widened):
            return None
        self._entries[key] = entry, self._turn
        self._entries.move_to_end(key)
        return entry

    def keep(self, key: AnswerKey, entry: CachedAnswer) -> None:
        """Remember this in place of what was known of the content, if it is small and there is room, or can be."""
        self._forget(key)
        if entry.bytes * ENTRY_SHARE > self._most_bytes:
            return
        while self._entries and self._held_bytes + entry.bytes > self.capacity_bytes:
            oldest, (_, turn) = next(iter(self._entries.items()))
            if self._turn - turn < self._recent:
                return
            self._forget(oldest)
        self._entries[key] = entry, self._turn
        self._held_bytes += entry.bytes

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._held_bytes = 0

    def _forget(self, key: AnswerKey) -> None:
        entry, _ = self._entries.pop(key, (None, 0))
        if entry is not None:
            self._held_bytes -= entry.bytes
