"""Knowledge across operators: what moved kernels of which kind, learned from a search that ended, and told to the next.

A lesson is a move (`service.knowledge.moves`) on operators of one kind (`service.knowledge.traits`), with one bottleneck,
on one device. Every pair of parent and child that differs by the move is a trial of it: a success if the child is
correct and its gain is above 1 by its lower bound, else a failure. Nothing is asked but the archive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archive.records import (
    JOBS_KEPT,
    SENTENCE_CHARS,
    KnowledgeEntryRecord,
    KnowledgeFindingRecord,
    NewKnowledgeEntry,
    SearchRecord,
)
from archive.store import Store
from service.analysis.lineage import JudgedCandidate, Lineage, LineageStep
from service.emitters.base import Parent
from service.evaluation.figure_labels import provenance
from service.evaluation.jobs import target_of
from service.evaluation.promotion import first_benchmark
from service.knowledge.moves import changed, move, sentence
from service.knowledge.traits import bottleneck, traits
from workers.protocol import DEVICE_TARGETS, Device, Operator, Outcome, Ratio, Readings, Shape
from workers.targets import TARGETS

MOST_LESSONS = 64
"""Entries that one search may add to or create: those with the most certain gain. A search has a few dozen moves."""
MOST_MOVES = 4096
"""Different lessons that are counted at once; what a search beyond that tries first late is passed over."""
MOST_ADVICE = 6
"""Entries told to one proposal: a paragraph of its prompt."""
CLAIM = "knowledge."
"""Begins the keys under which a prompt's claims name the entries that it carried; the entry's id follows."""
NO_TRIAL = (Outcome.WORKER_LOST, Outcome.NOT_INTERPRETABLE, Outcome.NOT_RECORDED)
"""Outcomes that say nothing about the move."""


@dataclass(frozen=True)
class Advice:
    """What a prompt may be told.

    Attributes:
        id: Of the entry.
        text: The entry in a sentence or two, on one line; hostile text like everything that a kernel had a hand in.
        job: Id of the job whose report its best gain rests on; empty if nobody tried it yet.
    """

    id: str
    text: str
    job: str

    @property
    def claim(self) -> str:
        """The key under which the claims of a prompt that carries it say so."""
        return CLAIM + self.id


@dataclass
class _EntryTally:
    """What a search says of one entry, as it is read."""

    entry: NewKnowledgeEntry
    successes: int = 0
    failures: int = 0
    best: list[tuple[Ratio, str, str]] = field(default_factory=list)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    example: str = ""

    def finding(self, search: SearchRecord) -> KnowledgeFindingRecord:
        """The same, to be stored."""
        ratio = self.best[0][0] if self.best else None
        return KnowledgeFindingRecord(
            search=search.id,
            operator=search.operator_name,
            successes=self.successes,
            failures=self.failures,
            low=ratio.low if ratio else None,
            mid=ratio.mid if ratio else None,
            high=ratio.high if ratio else None,
            jobs=tuple(job for _, *jobs in self.best for job in jobs),
            before=self.before,
            after=self.after,
            example=self.example[:SENTENCE_CHARS],
        )


class Distiller:
    """Reads one search and collects what it teaches."""

    def __init__(self, operator: Operator, lineage: Lineage) -> None:
        self._lineage = lineage
        self._search = lineage.search
        self._traits = traits(operator, lineage.search)
        self._shape = Shape.model_validate(lineage.search.shapes[first_benchmark(lineage.search)]).key
        self._tallies: dict[str, _EntryTally] = {}
        self._carried: dict[str, list[int]] = {}

    def note(self, step: LineageStep) -> None:
        """Take one step into account."""
        gains = [self._try(step, device) for device in self._search.devices] if step.parents else []
        tried = [gained for gained in gains if gained is not None]
        claims = {key for exchange in step.exchanges for key in exchange.claims if key.startswith(CLAIM)}
        for key in claims if tried else ():
            self._carried.setdefault(key.removeprefix(CLAIM), [0, 0])[not any(tried)] += 1

    def lessons(self) -> list[tuple[NewKnowledgeEntry, KnowledgeFindingRecord]]:
        """What was learned: moves that gained, the most certain first, then those that only failed."""
        ranked = sorted(self._tallies.values(), key=lambda tally: (-_low(tally), tally.entry.id))
        return [(tally.entry, tally.finding(self._search)) for tally in ranked[:MOST_LESSONS]]

    def carried(self) -> dict[str, tuple[int, int]]:
        """Wins and losses of proposals whose prompts carried an entry, by entry."""
        return {id: (wins, losses) for id, (wins, losses) in sorted(self._carried.items())}

    def _try(self, step: LineageStep, device: str) -> bool | None:
        """Count one pair on one device; whether it gained, None if that cannot be said."""
        over = self._lineage.over_parents(step, device)
        gained = over is not None and over[0].low > 1
        parent = over[1] if over else next((each for each in step.parents if _is_correct(each, device)), None)
        if parent is None or step.child.candidate.outcome in NO_TRIAL:
            return None
        tally = self._tally(step.child, parent, device)
        if tally is None:
            return gained
        if over is None or not gained:
            tally.failures += 1
            return False
        tally.successes += 1
        jobs = (step.child.standings[device].report.job, parent.standings[device].report.job)
        self._keep(tally, step.child, parent, (over[0], *jobs))
        return True

    def _keep(
        self, tally: _EntryTally, child: JudgedCandidate, parent: JudgedCandidate, pair: tuple[Ratio, str, str]
    ) -> None:
        """Keep a pair if it is among the best; of the very best also what it changed."""
        tally.best = sorted([*tally.best, pair], key=lambda item: (-item[0].low, item[1]))[: JOBS_KEPT // 2]
        if tally.best[0] is pair:
            device = tally.entry.device
            there, here = parent.standings[device].readings, child.standings[device].readings
            tally.before, tally.after = changed(there, here)
            tally.example = child.candidate.note

    def _tally(self, child: JudgedCandidate, parent: JudgedCandidate, device: str) -> _EntryTally | None:
        """Where a pair counts; None if it cannot be told what its move was."""
        standing, before = child.standings.get(device), parent.standings[device]
        candidate = child.candidate
        what = move(candidate.emitter, candidate.note, before.readings, standing.readings if standing else None)
        bound = self._bound(parent, device)
        if what is None or bound is None:
            return None
        text = sentence(candidate.emitter, what, self._traits, bound, device)
        entry = NewKnowledgeEntry(what, self._traits, bound, device, text)
        if len(self._tallies) >= MOST_MOVES:
            return self._tallies.get(entry.id)
        return self._tallies.setdefault(entry.id, _EntryTally(entry))

    def _bound(self, parent: JudgedCandidate, device: str) -> str | None:
        standing = parent.standings[device]
        result = next((item for item in standing.report.shapes if item.shape == self._shape), None)
        return _bottleneck(standing.readings, self._search, result.mid_us if result else None)


async def distil(store: Store, search: SearchRecord) -> None:
    """Learn from a search. To learn from the same search again changes nothing."""
    operator = Operator.model_validate_json((await store.operators.get(search.operator)).document)
    lineage = await Lineage.open(store, search)
    distiller = Distiller(operator, lineage)
    async for step in lineage.steps():
        distiller.note(step)
    await store.knowledge.learn(search.id, search.operator_name, distiller.lessons(), distiller.carried())


async def advice(
    store: Store, search: SearchRecord, operator: Operator, parent: Parent | None, device: str | None = None
) -> tuple[Advice, ...]:
    """What earlier searches teach about improving a kernel, the most fitting first.

    Args:
        store: What is known.
        search: The search that proposes.
        operator: Its operator.
        parent: The kernel to be improved, None where one is written from scratch.
        device: Whose figures the parent has; the search's first if left out.
    """
    here = device or search.devices[0]
    time_us = parent.times[0].mid_us if parent and parent.times else None
    bound = _bottleneck(parent.readings, search, time_us) if parent else None
    found = await store.knowledge.find(traits(operator, search), bound, _nearest(here), MOST_ADVICE)
    return tuple(Advice(entry.id, in_words(entry), entry.jobs[0] if entry.jobs else "") for entry in found)


def in_words(entry: KnowledgeEntryRecord) -> str:
    """An entry with its figures, on one line."""
    gains, trials = entry.successes, entry.successes + entry.failures
    if entry.low is None or entry.high is None:
        return f"{entry.sentence} Nobody tried it yet."
    figures = f"{gains} of {trials} such steps gained, at best {entry.low:.2f} to {entry.high:.2f} times"
    readings = ", ".join(
        f"{name} {_short(entry.before[name])} to {_short(entry.after.get(name))}" for name in entry.before
    )
    where = f" ({provenance(entry.device)}, on {entry.operator})"
    return f"{entry.sentence} {figures}{where}{': ' + readings if readings else ''}."


def _short(reading: object) -> str:
    return f"{reading:.3g}" if isinstance(reading, float) else str(reading)


def _nearest(device: str) -> tuple[str, ...]:
    """Devices whose lessons help on one: itself, then those that compile for the same target, cards first."""
    target = Device.parse(device).target
    cards = [name for name, compiled in DEVICE_TARGETS.items() if compiled == target]
    return tuple(dict.fromkeys([device, *cards, f"model:{target}", *(f"recorded:{name}" for name in cards)]))


def _bottleneck(readings: Mapping[str, Any], search: SearchRecord, time_us: float | None) -> str | None:
    target = TARGETS.get(target_of(search))
    if target is None or not time_us or not readings:
        return None
    return bottleneck(Readings.model_validate(readings), target, time_us)


def _is_correct(judged: JudgedCandidate, device: str) -> bool:
    standing = judged.standings.get(device)
    return standing is not None and standing.report.outcome is Outcome.CORRECT


def _low(tally: _EntryTally) -> float:
    return tally.best[0][0].low if tally.best else 0.0
