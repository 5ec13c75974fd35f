"""Emitter socket: the contract of a source of candidates.

An emitter turns a context into a proposal. It sees plain values only: no storage, no queue. It holds no state and reads
everything that it learns from the context, so that a killed search continues exactly. Emitters that use language models
also get an `LlmContext`, with a client and tools.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from service.llm.base import LlmAnswer, LlmPrompt, Purpose
from workers.protocol import CardSheet


@dataclass(frozen=True)
class ShapeTiming:
    """Times of a kernel at one benchmark shape, in microseconds.

    Attributes:
        shape: Key of the shape, such as `M=4096,N=4096`.
        weight: Weight in the objective.
        mid_us: Median time; `low_us` to `high_us` is its interval.
        low_us: Lower bound.
        high_us: Upper bound.
        floor_us: Time of the required bytes at the peak bandwidth; None if unknown.
        arithmetic_us: Time of the reference's operations at the peak rates; None if unknown.
        moved_us: Time of the bytes that the kernel moves at the peak bandwidth; None if unknown.
        launch_us: Least time of its launches; None if unknown.
        bound: Resource that sets the floor, or the bottleneck of a kernel far from it.
    """

    shape: str
    weight: float
    mid_us: float
    low_us: float
    high_us: float
    floor_us: float | None = None
    bound: str = ""
    arithmetic_us: float | None = None
    moved_us: float | None = None
    launch_us: float | None = None


@dataclass(frozen=True)
class Parent:
    """Candidate to start from, with the judge's results.

    Attributes:
        candidate: Its id; empty for the operator's seed kernel.
        source: Its text.
        configuration: Autotune configuration of the variant that holds the cell.
        objective: Objective of the variant; None for a kernel that is not judged yet.
        cell: Its cell; None if it holds none.
        readings: Readings at the first benchmark shape.
        place: Its cell in words.
        note: Note of its proposal.
        outcome: Its outcome; empty before the verdict.
        reason: Reason of the outcome.
        line: Line of its text that the reason names, if any.
        times: Times by benchmark shape.
        job: Id of the job whose report holds all this; empty if there is none.
        traced: Id of the job whose report gave the readings.
        ordinal: Number of its proposal. Conversations use it as the name: it is the same if a search is repeated.
        card: Sheet of the card that measured it; None if none did.
        limiter: Resource that limits the resident programs of a multiprocessor; empty if unknown.
        times_failed: Number of recent failures with the same cause, in a list of failures.
        launched: Names of the kernels that it launches at benchmark shapes; empty if unknown.
    """

    candidate: str
    source: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    objective: float | None = None
    cell: int | None = None
    readings: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    note: str = ""
    outcome: str = ""
    reason: str = ""
    line: int | None = None
    times: tuple[ShapeTiming, ...] = ()
    job: str = ""
    traced: str = ""
    ordinal: int | None = None
    card: CardSheet | None = None
    limiter: str = ""
    times_failed: int = 1
    launched: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TriedChange:
    """Change that a model made, in its own words, with the result.

    Attributes:
        change: The model's line.
        outcome: Outcome of its candidate; empty before the verdict.
        objective: Objective if it was correct.
        best: Best objective among its parents; None if unknown.
        candidate: Id of the candidate.
        job: Job whose report the result is from; empty if there is none.
    """

    change: str
    outcome: str = ""
    objective: float | None = None
    best: float | None = None
    candidate: str = ""
    job: str = ""


@dataclass(frozen=True)
class EmitterTrial:
    """Judged proposal of the same emitter.

    Attributes:
        note: Note of the proposal.
        outcome: Its outcome (`workers.protocol.Outcome`).
        objective: Its objective if it was correct.
        parents: Ids of its parents; empty if unknown.
        gain: Objective that it added to the archive; None if it won no cell.
        ordinal: Number of the proposal.
    """

    note: str
    outcome: str
    objective: float | None
    parents: tuple[str, ...] = ()
    gain: float | None = None
    ordinal: int = 0


@dataclass(frozen=True)
class StrategyRecord:
    """Statistics of one backend with one strategy, within one search.

    Attributes:
        backend: Name of the backend.
        strategy: Name of the strategy.
        calls: Number of prompts that were answered or refused.
        cost: Cost of these, in a unit that all records of a search share.
        promotions: Number of cells that the resulting candidates won.
        gain: Objective that these promotions added to the archive.
    """

    backend: str
    strategy: str
    calls: int = 0
    cost: float = 0.0
    promotions: int = 0
    gain: float = 0.0


class BoundLlmClient(Protocol):
    """Client that an emitter asks, as `service.llm.base.LlmClient`."""

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Have a prompt answered.

        Raises:
            BackendError: If no answer came.
        """
        ...


class EmitterTools(Protocol):
    """Tools of a language model while it works on a proposal: look kernels up, and have some judged."""

    async def elites(self) -> Sequence[Parent]:
        """List the elites, the best first."""
        ...

    async def find(self, ordinal: int) -> Parent | None:
        """Return the candidate of an ordinal, None if the search has none."""
        ...

    async def judge(self, source: str, parents: Sequence[str], note: str) -> Parent | None:
        """Evaluate a source as a candidate of the search. Returns None if the budget is used up."""
        ...

    async def submitted(self, exchange: str) -> Sequence[str]:
        """Return the ids of the candidates that an agent submitted during an exchange, oldest first."""
        ...


@dataclass(frozen=True)
class LlmContext:
    """Further context for an emitter that uses a language model.

    Attributes:
        search: Id of the search.
        ordinal: Number of the proposal.
        device: Device that the parents' figures are from.
        ask: Client for prompts, which pays for the answers and stores them.
        tools: Tools to look kernels up and have them judged.
        backends: Names of the allowed backends.
        agents: Names of the allowed backends that start an agent.
        strategies: Names of the allowed strategies.
        records: Statistics of backends and strategies so far.
        begun: Backend and strategy of a resumed proposal; None for a new one.
        most: Maximum number of candidates from one answer.
        cell: Empty cell to aim at; None if there is none.
        place: That cell in words.
        neighbours: Elites of the cells beside it, or beside the chosen parent's cell.
        broken: Failed candidate that may be repaired.
        failures: Recent failures, newest first.
        hints: Hints that people gave for this search.
        best: Best kernel so far on the device; None before the first elite.
        changes: Changes that models made so far, newest first.
        under_way: What other proposals work on at the moment, in words.
    """

    search: str
    ordinal: int
    device: str
    ask: BoundLlmClient
    tools: EmitterTools
    backends: tuple[str, ...]
    strategies: tuple[str, ...]
    records: tuple[StrategyRecord, ...] = ()
    begun: tuple[str, str] | None = None
    most: int = 8
    cell: int | None = None
    place: str = ""
    neighbours: tuple[Parent, ...] = ()
    broken: Parent | None = None
    failures: tuple[Parent, ...] = ()
    hints: tuple[str, ...] = ()
    best: Parent | None = None
    changes: tuple[TriedChange, ...] = ()
    under_way: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProposalContext:
    """Everything that an emitter may know for one proposal.

    Attributes:
        operator: The operator as a JSON object (`workers.protocol.Operator`).
        target: Target that the candidate is compiled for, such as `sm_90`.
        parents: At least `arity` parents, the chosen one first; fewer if the archive holds fewer.
        trials: Recent trials of this emitter in this search, newest first.
        rng: The only source of randomness; seeded from the search's seed and the proposal's ordinal.
        llm: Further context for emitters that use language models.
        compilers: Triton releases that may compile the candidate, such as 3.9; empty if unknown.
        draft: A worker's draft from the operator's reference, for emitters that propose one; empty if it failed.
    """

    operator: Mapping[str, Any]
    target: str
    parents: tuple[Parent, ...]
    trials: tuple[EmitterTrial, ...]
    rng: random.Random
    llm: LlmContext | None = None
    draft: str = ""
    compilers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConversationTurn:
    """One exchange of a conversation: its id, and the candidate that it had judged, if any."""

    exchange: str
    candidate: str | None = None


@dataclass(frozen=True)
class Proposal:
    """Text of a new candidate.

    Attributes:
        source: The text.
        parents: Ids of its parents.
        note: Description of the change; the same change always has the same note.
        turns: Exchanges that led to it; the text is from the last answer.
        variations: Further candidates from the same answer.
        exchange: Exchange of that answer; None if no model wrote it.
        change: Model's own line on what it changed and why.
    """

    source: str
    parents: tuple[str, ...]
    note: str
    turns: tuple[ConversationTurn, ...] = ()
    variations: tuple["Proposal", ...] = ()
    exchange: str | None = None
    change: str = ""


@dataclass(frozen=True)
class Edit:
    """Possible change of a parent, described before its text is written.

    Attributes:
        note: Note of the resulting proposal.
        rules: Names of the rules that it applies.
        values: New values of parameters, by name.
    """

    note: str
    rules: tuple[str, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class NoProposal:
    """Exchanges that gave no candidate to store. `reason` is a word, `detail` a sentence; empty if nothing failed."""

    turns: tuple[ConversationTurn, ...]
    reason: str = ""
    detail: str = ""


class Emitter(ABC):
    """Source of candidates.

    Attributes:
        name: Name in specs; also its key in the table.
        arity: Number of parents that it needs.
        asks: True if it uses language models: it then gets an `LlmContext`, and is as slow as they are.
        proposes_draft: True if it proposes once, before the search runs, from a worker's draft.
        receives: True if others submit its candidates while the search runs; it takes turns only to start an agent.
    """

    name: ClassVar[str]
    arity: ClassVar[int] = 1
    asks: ClassVar[bool] = False
    proposes_draft: ClassVar[bool] = False
    receives: ClassVar[bool] = False

    def suspended(self, trials: Sequence[EmitterTrial]) -> Mapping[str, str]:
        """Return the parts that it has suspended because of recent trials, with reasons; most suspend nothing."""
        return {}

    def edits(self, context: ProposalContext) -> Sequence[Edit]:
        """List the possible edits of the first parent; empty if the emitter cannot tell without writing them."""
        return ()

    def apply(self, context: ProposalContext, edit: Edit) -> Proposal | None:
        """Apply one of those edits. Returns None if it does not apply after all."""
        return None

    @abstractmethod
    async def propose(self, context: ProposalContext) -> Proposal | NoProposal | None:
        """Propose one candidate, or None if nothing can be made of these parents.

        Raises:
            BackendError: If a language model did not answer.
        """
