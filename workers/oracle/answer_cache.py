"""The oracle's memory: answers that will be needed again, as many as fit on the card."""

import secrets
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.commands import SECRET_BYTES
from workers.oracle.answers import Answer

RECENT = 4
"""Subjects per arena and operator for which an answer stays cached without use. Refused candidates need few answers,
and a search that has ended should make room soon."""

ALTERNATING = 100
"""Subjects for which an operator counts as one of those that are judged in turn."""

SUBJECTS_PER_SECRET = 500
"""Subjects of an operator after which its recurring contents follow from another secret."""

ENTRY_SHARE = 24
"""Reciprocal of the largest share of the cache that an entry may take. A larger one would evict a whole timing, and the
checks need the memory themselves: beside six contents of 4.6 GB those in float64 do not fit on a card of 141 GB."""

DEARER = 2.0
"""Ratio of seconds per byte from which an answer takes the place of others that are still in use."""

GIVEN_UP = 0.25
"""Share of the answers that is evicted if the card's memory is too small beside them. On an H100 with six searches the
answers filled their 46.7 GB, and attention in float64 did not fit beside them: everything was computed again five times
in 100 s."""

LEAST_SHARE = 0.25
"""Minimum share of the cache that stays in use, however often memory was too small."""

RECOVERY = 512
"""Subjects in which the cache grows from nothing to its full size again."""


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


@dataclass
class _Shelf:
    """Answers of one operator, shape and draw, with the turn of their last use; the least recently used come first.

    All that were ever computed took so many seconds, and bytes.
    """

    entries: OrderedDict[AnswerKey, tuple[CachedAnswer, int]] = field(default_factory=OrderedDict)
    seconds: float = 0.0
    bytes: int = 0

    @property
    def seconds_per_byte(self) -> float:
        return self.seconds / max(1, self.bytes)

    @property
    def oldest(self) -> int:
        """The earliest turn of a last use."""
        return next(iter(self.entries.values()))[1]


@dataclass
class _OperatorUse:
    """The secret of an operator's recurring contents, its subjects so far, and the turn of the last one."""

    secret: str
    subjects: int = 0
    turn: int = 0


class AnswerCache:
    """Answers that fit on the card. Those out of use are evicted first, then those that are quick to compute again.

    Candidates of one operator need the same answers in the same order, and several operators are judged in turn. If
    those are more than fit, evicting the oldest for the newest would evict each just before it is needed again. So the
    newest is not cached instead, unless it takes much longer per byte to compute.
    """

    def __init__(self, most_bytes: int, room_bytes: int = sys.maxsize) -> None:
        """Start empty.

        Args:
            most_bytes: Maximum size on the card.
            room_bytes: Maximum size of the answers and the executors' arenas together.
        """
        self._most_bytes, self._room_bytes, self._limit_bytes = most_bytes, room_bytes, most_bytes
        self._arenas: dict[object, int] = {}
        self.key = secrets.randbits(63) | 1
        """Key of the inputs' checksums (`workers.oracle.base.OracleCard.sums`)."""
        self._shelves: dict[tuple[str, ...], _Shelf] = {}
        self._uses: dict[str, _OperatorUse] = {}
        self._held_bytes = 0
        self._turn = 0

    @property
    def capacity_bytes(self) -> int:
        """Maximum size on the card beside the present arenas."""
        return max(0, min(self._limit_bytes, self._room_bytes - sum(self._arenas.values())))

    def begin(self, operator: str) -> str:
        """Begin another subject of an operator, by its digest. Returns the secret of its recurring contents, in hex."""
        use = self._uses.get(operator)
        if use is None or use.subjects == SUBJECTS_PER_SECRET:
            self._drop(operator)
            use = self._uses[operator] = _OperatorUse(secrets.token_hex(SECRET_BYTES))
        self._turn += 1
        use.subjects, use.turn = use.subjects + 1, self._turn
        self._limit_bytes = min(self._most_bytes, self._limit_bytes + -(-self._most_bytes // RECOVERY))
        for other in [name for name, each in self._uses.items() if self._turn - each.turn > SUBJECTS_PER_SECRET]:
            self._drop(other)
        return use.secret

    def make_way(self, asker: object, arena_bytes: int) -> None:
        """Set the arena size of one user, and evict answers until the rest fits beside all arenas."""
        self._arenas.pop(asker, None)
        if arena_bytes:
            self._arenas[asker] = arena_bytes
        self._evict(self.capacity_bytes)

    def give_way(self) -> None:
        """Evict a share of the answers, and keep fewer for a while: the card's memory is too small beside them."""
        left_bytes = int((1 - GIVEN_UP) * self._held_bytes)
        self._limit_bytes = max(left_bytes, int(LEAST_SHARE * self._most_bytes))
        self._evict(left_bytes)

    def recall(self, key: AnswerKey, *, widened: bool) -> CachedAnswer | None:
        """Return the cached answers of a content, or None; widened answers also serve where `widened` is false."""
        shelf = self._shelves.get(key[:3], _Shelf())
        entry, _ = shelf.entries.get(key, (None, 0))
        if entry is None or (widened and not entry.widened):
            return None
        shelf.entries[key] = entry, self._turn
        shelf.entries.move_to_end(key)
        return entry

    def keep(self, key: AnswerKey, entry: CachedAnswer, seconds: float = 0.0) -> None:
        """Cache an entry in place of the content's former one, if it is small and there is room or room can be made.

        Args:
            key: The content.
            entry: Its answers.
            seconds: Seconds that it took to compute them.
        """
        shelf = self._shelves.setdefault(key[:3], _Shelf())
        self._forget(shelf, key)
        shelf.seconds, shelf.bytes = shelf.seconds + seconds, shelf.bytes + entry.bytes
        if entry.bytes * ENTRY_SHARE <= self._most_bytes and self._makes_room(entry.bytes, shelf.seconds_per_byte):
            shelf.entries[key] = entry, self._turn
            self._held_bytes += entry.bytes

    def clear(self) -> None:
        """Drop everything."""
        for shelf in self._shelves.values():
            shelf.entries.clear()
        self._held_bytes = 0

    def _makes_room(self, needed: int, seconds_per_byte: float) -> bool:
        """Make room for an answer at the cost of those that are worth less. Returns True if there is enough."""
        while needed <= self.capacity_bytes < self._held_bytes + needed:
            shelf = self._least()
            if not self._is_stale(shelf) and shelf.seconds_per_byte * DEARER >= seconds_per_byte:
                return False
            self._forget(shelf, next(iter(shelf.entries)))
        return needed <= self.capacity_bytes

    def _evict(self, left_bytes: int) -> None:
        """Evict answers until no more than so many bytes are left."""
        while self._held_bytes > left_bytes:
            shelf = self._least()
            self._forget(shelf, next(iter(shelf.entries)))

    def _least(self) -> _Shelf:
        """Return the shelf whose first answer is worth least: one out of use, or the quickest to compute again."""
        filled = [shelf for shelf in self._shelves.values() if shelf.entries]
        oldest = min(filled, key=lambda shelf: shelf.oldest)
        if self._is_stale(oldest):
            return oldest
        return min(filled, key=lambda shelf: shelf.seconds_per_byte)

    def _is_stale(self, shelf: _Shelf) -> bool:
        """Return True if each operator in turn had its recent subjects since a shelf's first answer was used."""
        alternating = sum(self._turn - use.turn < ALTERNATING for use in self._uses.values())
        return self._turn - shelf.oldest >= RECENT * max(1, len(self._arenas)) * max(1, alternating)

    def _drop(self, operator: str) -> None:
        """Drop an operator's secret and answers."""
        self._uses.pop(operator, None)
        for name in [name for name in self._shelves if name[0] == operator]:
            shelf = self._shelves.pop(name)
            self._held_bytes -= sum(entry.bytes for entry, _ in shelf.entries.values())

    def _forget(self, shelf: _Shelf, key: AnswerKey) -> None:
        entry, _ = shelf.entries.pop(key, (None, 0))
        if entry is not None:
            self._held_bytes -= entry.bytes
