"""Records of knowledge: what moved kernels of which kind, and what every search said about it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

MOVE_CHARS = 200
"""Longest name of a move: a dozen parameters or four rules."""
SENTENCE_CHARS = 400
"""Longest sentence of an entry: a dozen of them fit into a prompt without crowding it."""
JOBS_KEPT = 8
"""Report jobs that a finding names as evidence: four pairs of child and parent, the best first."""


class KnowledgeState(StrEnum):
    """Whether an entry is offered to whoever proposes; `retired` ones are kept and shown, and may come back."""

    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True)
class KnowledgeFindingRecord:
    """What one search says of an entry.

    Attributes:
        search: Its id; may be of another installation.
        operator: Name of its operator.
        successes: Pairs of child and parent that differ by the move, and whose gain is certain.
        failures: Such pairs without a certain gain; children that are not correct among them.
        wins: Proposals whose prompt carried the entry, and that gained for certain.
        losses: Such proposals that did not.
        low: Lower bound of the best pair's gain: the parent's time over the child's; None without a success.
        mid: Middle of that gain.
        high: Upper bound of that gain.
        jobs: Report jobs that the successes rest on: child, parent, child, ...; the best pair first.
        before: Readings of the best pair's parent that the move changed.
        after: The same readings of its child.
        example: The best pair's own note.
    """

    search: str
    operator: str
    successes: int = 0
    failures: int = 0
    wins: int = 0
    losses: int = 0
    low: float | None = None
    mid: float | None = None
    high: float | None = None
    jobs: tuple[str, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    example: str = ""


@dataclass(frozen=True)
class NewKnowledgeEntry:
    """What is known of a move, ready to be stored.

    Attributes:
        move: What changed, in canonical words.
        traits: Of the operators it was seen on; the first is their kind.
        bottleneck: What the parents were bound by.
        device: Where.
        sentence: The same for a person.
    """

    move: str
    traits: tuple[str, ...]
    bottleneck: str
    device: str
    sentence: str

    @property
    def id(self) -> str:
        """See `entry_id`."""
        return entry_id(self.move, self.traits, self.bottleneck, self.device)


@dataclass(frozen=True)
class KnowledgeEntryRecord:
    """A stored entry: `NewKnowledgeEntry` with what all searches together say of it.

    `held` says that a person decided on its state, so that outcomes no longer change it; `worth` is what entries are
    ranked by (`archive.credit`). Gains, evidence, readings and example are those of the finding with the largest lower
    bound.
    """

    id: str
    move: str
    traits: tuple[str, ...]
    bottleneck: str
    device: str
    sentence: str
    state: KnowledgeState
    held: bool
    worth: float
    successes: int
    failures: int
    wins: int
    losses: int
    low: float | None
    mid: float | None
    high: float | None
    jobs: tuple[str, ...]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    example: str
    operator: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class ImportedEntryRecord:
    """An entry as a person hands it in, with findings from wherever it was exported."""

    entry: NewKnowledgeEntry
    state: KnowledgeState = KnowledgeState.ACTIVE
    held: bool = False
    findings: tuple[KnowledgeFindingRecord, ...] = ()


def entry_id(move: str, traits: Sequence[str], bottleneck: str, device: str) -> str:
    """An entry's id: 24 hexadecimal digits of the SHA-256 of what it is about, the same in every installation."""
    body = json.dumps([move, list(traits), bottleneck, device])
    return hashlib.sha256(body.encode()).hexdigest()[:24]
