"""Records of searches: requests, candidates, variants, reports and progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kernelreef.states import CandidateState, SearchState

SEED_EMITTER = "seed"
"""Placeholder for the emitter's name on an operator's own seed kernels."""

PRIORITY = 5
"""Default priority of a search: the middle of 1 to 9."""


@dataclass(frozen=True)
class AxisRecord:
    """One axis of a search's grid: a descriptor by name, and its number of bins."""

    descriptor: str
    bins: int


@dataclass(frozen=True)
class OperatorRecord:
    """A stored operator; `document` is its JSON text."""

    digest: str
    name: str
    document: str
    created_at: datetime


@dataclass(frozen=True)
class MeasuredBaselines:
    """Baselines of a search on a device that measures.

    Attributes:
        low: Lower bound of the pacer's speedup over the best baseline of each shape, a geometric mean over the shapes.
        mid: Its median.
        high: Its upper bound.
        pacer_us: Time of the pacer beside the baselines, microseconds by shape key.
        times_us: Times of the baselines, microseconds by shape key and name.
        copy_us: Time of a plain copy of the bytes that a call must move, microseconds by shape key.
        reason: Reason why there are none; empty if there are. The bounds are then 1.0.
    """

    low: float = 1.0
    mid: float = 1.0
    high: float = 1.0
    pacer_us: Mapping[str, float] = field(default_factory=dict)
    times_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    copy_us: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class NewSearch:
    """Part of a `SearchRecord` that the service sets; the archive adds state and timestamps."""

    id: str
    operator: str
    operator_name: str
    devices: tuple[str, ...]
    emitters: tuple[str, ...]
    axes: tuple[AxisRecord, ...]
    axes_version: int
    evaluations: int
    seed: int
    shapes: tuple[Mapping[str, Any], ...]
    owner: str = ""
    priority: int = PRIORITY
    llm: Mapping[str, Any] | None = None
    stop: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    name: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    admit: bool = False
    compiler: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchRecord(NewSearch):
    """A stored search.

    Attributes:
        id: UUIDv7.
        operator: Digest of the operator.
        operator_name: Its name.
        devices: Names of the devices; each has its own grid of elites.
        emitters: Names from the emitter table.
        axes: The grid.
        axes_version: Number that grows when axes or edges change; part of an elite's key.
        evaluations: Maximum number of evaluations; duplicates do not count.
        seed: Seed of the proposals, never of input values.
        shapes: Benchmark, boundary and held-out shapes as JSON objects (`workers.protocol.Shape`).
        graphs: Reference graphs as JSON objects; empty until exported.
        state: State of the search.
        reason: Reason why it failed or stopped.
        created_at: UTC.
        updated_at: UTC.
        owner: Id of the token that submitted it; empty for the machine's own user.
        priority: Weight among its owner's searches, 1 to 9.
        llm: Models it may ask, strategies and limits, as a JSON object; None if it asks none.
        stop: Stop rules, as a JSON object; None if only the budget ends it.
        selection: Selection settings, as a JSON object; None for the defaults.
        name: Name for people; empty if it has none.
        tags: Tags that it is found by, in the order given.
        notes: Notes for people.
        compiler: Release of Triton that compiles its candidates, such as 3.9; None for that of whichever worker.
        admit: True if it goes on although mutation testing fails its operator.
        admitted: Reason for which mutation testing failed its operator, if it went on; empty otherwise. Its elites have
            no part in results across searches.
        baselines: Measured baselines by device. Objectives of a device that measures are over the pacer before its
            baselines are here, and over the best baseline from then on.
        ended_at: Time of its end, UTC; None while it is open.
        finishing: True if it is done, and its finalists or its baselines are still to come.
        reference_seed: Ordinal of the reference seed, which all its figures relate to.
        refused_seeds: Sentence about the seeds before it, which were refused; empty if there are none.
    """

    graphs: tuple[Mapping[str, Any], ...]
    state: SearchState
    reason: str
    created_at: datetime
    updated_at: datetime
    baselines: Mapping[str, MeasuredBaselines] = field(default_factory=dict)
    ended_at: datetime | None = None
    finishing: bool = False
    admitted: str = ""
    reference_seed: int = 0
    refused_seeds: str = ""


@dataclass(frozen=True)
class ReferenceChange:
    """Change of a search's reference seed: from the refused seed of one ordinal to that of another, with a sentence."""

    search: str
    refused: int
    following: int
    refused_seeds: str


@dataclass(frozen=True)
class SearchCounts:
    """Candidates of a search by state (`proposals` counts duplicates too), and its times in milliseconds.

    `equal_plans` are those whose plans had a verdict in the search already; `candidates` and `evaluated` are without.
    `device_ms` is the time of its reports on devices. `running_ms` is the time that it has run since its first verdict,
    `starting_ms` the time before that. Neither counts pauses, or time without a coordinator.
    """

    proposals: int
    candidates: int
    evaluated: int
    device_ms: int
    starting_ms: int = 0
    running_ms: int = 0
    equal_plans: int = 0

    @property
    def in_flight(self) -> int:
        """Candidates queued or traced."""
        return self.candidates - self.evaluated


@dataclass(frozen=True)
class NewCandidate:
    """Proposal of an emitter, ready to be stored. `digest` is the hash of the normalised source.

    `exchange` is the id of the exchange whose answer it is from; None if no model wrote it.
    """

    id: str
    search: str
    ordinal: int
    emitter: str
    source: str
    digest: str
    trace_key: str
    parents: tuple[str, ...] = ()
    note: str = ""
    exchange: str | None = None


@dataclass(frozen=True, kw_only=True)
class CandidateRecord(NewCandidate):
    """A stored candidate.

    `outcome` is its best variant's once judged; `objectives` are those of its best variant on each device where one is
    correct. `objective` is the one on the search's first device, so that it means the same for all candidates of a
    search. `ordinal` counts proposals from 0; `stages_s` are the seconds of its trace by stage.
    """

    state: CandidateState
    outcome: str | None
    reason: str
    line: int | None
    created_at: datetime
    objective: float | None = None
    objectives: Mapping[str, float] = field(default_factory=dict)
    stages_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class NewVariant:
    """One variant out of a trace: a bundle, or the outcome that stopped it.

    `bundle` is the bundle's identity. `document` (its JSON text) and `readings` (one mapping per plan) may be left out
    if the archive holds that bundle already.
    """

    index: int
    configuration: Mapping[str, Any]
    outcome: str | None = None
    reason: str = ""
    line: int | None = None
    bundle: str | None = None
    document: str | None = None
    readings: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True)
class TraceOutcome:
    """Result of a trace. `outcome`, `reason` and `line` are about the candidate as a whole.

    `sure` is True if a trusted worker traced it: its bundles replace those of untrusted workers.
    """

    outcome: str | None
    reason: str
    line: int | None
    stages_s: Mapping[str, float]
    variants: tuple[NewVariant, ...]
    sure: bool = True


@dataclass(frozen=True)
class VariantRecord:
    """One autotune configuration of a candidate, with its bundle's identity, or the outcome that stopped it."""

    candidate: str
    index: int
    configuration: Mapping[str, Any]
    bundle: str | None
    outcome: str | None
    reason: str
    line: int | None


@dataclass(frozen=True)
class TrialRecord:
    """An evaluated proposal, for its emitter: the edit, its parents and its result."""

    candidate: str
    ordinal: int
    note: str
    outcome: str
    objective: float | None
    parents: tuple[str, ...] = ()


@dataclass(frozen=True)
class BundleRecord:
    """A stored bundle: its JSON text, and the readings of each of its plans."""

    identity: str
    document: str
    readings: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class NewReport:
    """A report ready to be stored: its key, its compiler in words, and the whole report as JSON text."""

    job: str
    search: str
    candidate: str
    variant: int
    bundle: str
    operator: str
    device: str
    kind: str
    protocol_version: int
    outcome: str
    reason: str
    provenance: str
    document: str
    compiler: str = ""


@dataclass(frozen=True)
class ProgressRecord:
    """Progress of a search on one device, with statistics as pyribs defines them.

    Attributes:
        evaluated: Number of candidates evaluated.
        correct: Number of candidates with a correct variant.
        elites: Number of filled cells.
        cells: Number of cells of the grid.
        coverage: Share of cells filled, 0 to 1.
        qd_score: Sum of the elites' objectives.
        norm_qd_score: `qd_score` over `cells`.
        best: Largest objective; None while no cell is filled.
        outcomes: Number of evaluated candidates by outcome.
        emitters: By emitter: `proposals`, `judged`, `correct` and, on this device, `promotions`; `screened` if any.
        provisional: Number of cells with a provisional holder; it is no elite, and counts in none of the other figures.
    """

    evaluated: int
    correct: int
    elites: int
    cells: int
    coverage: float
    qd_score: float
    norm_qd_score: float
    best: float | None
    outcomes: Mapping[str, int] = field(default_factory=dict)
    emitters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    provisional: int = 0
