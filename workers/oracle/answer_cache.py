"""The oracle's memory: answers that will be needed again, as many as fit on the card."""

import secrets
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from workers.commands import SECRET_BYTES
from workers.oracle.answers import Answer

RECENT = 4
"""Subjects per user for which an answer stays cached without use. Refused candidates need few answers, and after a
change of secrets the former ones should make room soon."""

SUBJECTS_PER_SECRET = 500
"""Subjects after which recurring contents follow from another secret."""

ENTRY_SHARE = 24
"""Reciprocal of the largest share of the cache that an entry may take. A larger one would evict a whole timing, and the
checks need the memory themselves: beside six contents of 4.6 GB those in float64 do not fit on a card of 141 GB."""


class AnswerKey(NamedTuple):
    """Everything that a content, and so its answer, depends on: the operator's digest, and the executor's choices."""

    operator: str
    shape: str
    draw: str
    seed: str
    stream: int


@dataclass(frozen=True)
class CachedAnswer:
    """Cached facts about one content.

    Attributes:
        answers: Answers for all outputs.
        widened: True if they allow the movement of results under nudged inputs.
        sums: Checksums of the inputs, under the cache's key.
    """

    answers: tuple[Answer, ...]
    widened: bool
    sums: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Size on the card."""
        return sum(answer.bytes for answer in self.answers)


class AnswerCache:
    """Answers that fit on the card. Those of recent subjects stay; of the others the oldest is evicted first.

    Candidates need the same answers in the same order. If those are more than fit, evicting the oldest for the newest
    would evict each just before it is needed again. So the newest is not cached instead.
    """

    def __init__(self, most_bytes: int, askers: int = 1, room_bytes: int = sys.maxsize) -> None:
        """Start empty.

        Args:
            most_bytes: Maximum size on the card.
            askers: Number of executors that judge side by side, one subject each at a time.
            room_bytes: Maximum size of the answers and the executors' arenas together.
        """
        self._recent = RECENT * askers
        self._secret = ""
        self._most_bytes, self._room_bytes = most_bytes, room_bytes
        self._arenas: dict[object, int] = {}
        self.capacity_bytes = most_bytes
        """Maximum size on the card beside the present arenas."""
        self.key = secrets.randbits(63) | 1
        """Key of the inputs' checksums (`workers.oracle.base.OracleCard.sums`)."""
        self._entries: OrderedDict[AnswerKey, tuple[CachedAnswer, int]] = OrderedDict()
        self._held_bytes = 0
        self._turn = 0

    def begin(self) -> str:
        """Begin another subject. Returns the secret of recurring contents, hexadecimal."""
        if self._turn % SUBJECTS_PER_SECRET == 0:
            self._secret = secrets.token_hex(SECRET_BYTES)
        self._turn += 1
        return self._secret

    def make_way(self, asker: object, arena_bytes: int) -> None:
        """Set the arena size of one user, and evict answers until the rest fits beside all arenas."""
        self._arenas[asker] = arena_bytes
        self.capacity_bytes = max(0, min(self._most_bytes, self._room_bytes - sum(self._arenas.values())))
        while self._held_bytes > self.capacity_bytes:
            self._forget(next(iter(self._entries)))

    def recall(self, key: AnswerKey, *, widened: bool) -> CachedAnswer | None:
        """Return the cached answers of a content, or None; widened answers also serve where `widened` is false."""
        entry, _ = self._entries.get(key, (None, 0))
        if entry is None or (widened and not entry.widened):
            return None
        self._entries[key] = entry, self._turn
        self._entries.move_to_end(key)
        return entry

    def keep(self, key: AnswerKey, entry: CachedAnswer) -> None:
        """Cache an entry in place of the content's former one, if it is small and there is room or room can be made."""
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
        """Drop everything."""
        self._entries.clear()
        self._held_bytes = 0

    def _forget(self, key: AnswerKey) -> None:
        entry, _ = self._entries.pop(key, (None, 0))
        if entry is not None:
            self._held_bytes -= entry.bytes
