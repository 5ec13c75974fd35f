"""Progress of a search on a device, in the statistics of pyribs (`ribs.archives.ArchiveStats`, offset 0)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from archive.records import ProgressRecord

PROPOSED = "proposed"
"""Event: an emitter proposed a candidate, duplicates included."""
SCREENED = "screened"
"""Event: an emitter's proposal was dropped in favour of a more promising one."""
PROMOTED = "promoted"
"""Event: an offer won a cell."""
CORRECT = "correct"
"""The only outcome that may hold a cell."""


@dataclass(frozen=True)
class GridTotals:
    """The filled cells of one grid: how many, the sum of their objectives and the largest (None if there are none).

    `provisional` counts the cells with a provisional holder.
    """

    elites: int
    objectives: float
    best: float | None
    provisional: int = 0


@dataclass(frozen=True)
class EventCount:
    """Count of an event of an emitter's candidates: `PROPOSED`, `SCREENED`, `PROMOTED`, or an outcome."""

    emitter: str
    event: str
    count: int


def summarise(cells: int, filled: GridTotals, tallies: Iterable[EventCount]) -> ProgressRecord:
    """Summarise the progress of a search.

    Args:
        cells: Cells of the grid, at least 1.
        filled: Its filled cells.
        tallies: Event counts of every emitter on the same device.
    """
    outcomes: Counter[str] = Counter()
    emitters: dict[str, Counter[str]] = {}
    for tally in tallies:
        emitter = emitters.setdefault(tally.emitter, Counter(proposals=0, judged=0, correct=0, promotions=0))
        if tally.event == PROPOSED:
            emitter["proposals"] += tally.count
        elif tally.event == SCREENED:
            emitter["screened"] += tally.count
        elif tally.event == PROMOTED:
            emitter["promotions"] += tally.count
        else:
            outcomes[tally.event] += tally.count
            emitter["judged"] += tally.count
            emitter["correct"] += tally.count if tally.event == CORRECT else 0
    return ProgressRecord(
        evaluated=outcomes.total(),
        correct=outcomes[CORRECT],
        elites=filled.elites,
        cells=cells,
        coverage=filled.elites / cells,
        qd_score=filled.objectives,
        norm_qd_score=filled.objectives / cells,
        best=filled.best,
        outcomes=dict(outcomes.most_common()),
        emitters={name: dict(counts) for name, counts in sorted(emitters.items())},
        provisional=filled.provisional,
    )


def dropped(emitters: Mapping[str, Mapping[str, int]]) -> int:
    """Return the number of edits that screening skipped in a whole search, from the emitters' progress counts."""
    return sum(counts.get(SCREENED, 0) for counts in emitters.values())
