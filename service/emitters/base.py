"""The emitter socket: where candidates come from.

An emitter turns a brief into a proposal. It sees plain values only: no storage, no queue. It holds no state, so a
killed search continues exactly: whatever it learns must be read from the brief. Emitters that ask models get a talk
besides: whom they may ask and what they may look up, as ports that somebody else serves.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from service.llm.base import LlmAnswer, LlmPrompt, Purpose


@dataclass(frozen=True)
class ShapeTiming:
    """One benchmark shape of a kernel, in microseconds.

    Attributes:
        shape: Its key, such as `M=4096,N=4096`.
        weight: In the objective.
        mid_us: The kernel's time; `low_us` to `high_us` is its interval.
        low_us: Lower bound.
        high_us: Upper bound.
        floor_us: Least time that the target allows, None if unknown.
        bound: Which bound that floor is, or what holds the kernel back where it is far from it.
    """

    shape: str
    weight: float
    mid_us: float
    low_us: float
    high_us: float
    floor_us: float | None = None
    bound: str = ""


@dataclass(frozen=True)
class Parent:
    """A candidate to start from, with what the judge knows of it.

    Attributes:
        candidate: Its id; empty for the operator's seed kernel.
        source: Its text.
        configuration: The autotune choice of the variant that holds the cell.
        objective: Of the variant; None for a kernel not judged yet.
        cell: Its cell, None if it holds none.
        readings: Of the first benchmark shape.
        place: Its cell in words.
        note: What was tried when it was proposed.
        outcome: Its verdict, empty before there is one.
        reason: Why, in the judge's words.
        line: Of its text, where the reason is about one.
        times: By benchmark shape.
        job: Id of the job whose report says all this; empty where there is none.
        traced: Id of the job whose report gave the readings.
        ordinal: Number of its proposal: what conversations call it, for it is the same when a search is repeated.
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


@dataclass(frozen=True)
class EmitterTrial:
    """A judged proposal of the same emitter.

    Attributes:
        note: What was tried, as in its proposal.
        outcome: What came of it (`workers.protocol.Outcome`).
        objective: If it was correct.
        parents: Ids of what it was made from; empty where that is not known.
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
    """What came of asking one backend by one strategy, within one search.

    Attributes:
        backend: Who was asked.
        strategy: How.
        calls: Prompts that were answered or refused.
        cost: Of these, in the unit that all records of a search share.
        promotions: Cells that were won by what came of it.
        gain: Objective that these promotions added to the archive.
    """

    backend: str
    strategy: str
    calls: int = 0
    cost: float = 0.0
    promotions: int = 0
    gain: float = 0.0


class BoundLlmClient(Protocol):
    """How an emitter asks: as `service.llm.base.LlmClient` does."""

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        """Have a prompt answered.

        Raises:
            BackendError: If no answer came.
        """
        ...


class EmitterTools(Protocol):
    """What a model may look up and have tried while it works on a proposal."""

    async def elites(self) -> Sequence[Parent]:
        """Kernels that hold cells, the best first."""
        ...

    async def find(self, ordinal: int) -> Parent | None:
        """The candidate of an ordinal, None if the search has none."""
        ...

    async def judge(self, source: str, parents: Sequence[str], note: str) -> Parent | None:
        """Have a source judged as a candidate of the search; None if the search may judge no more."""
        ...


@dataclass(frozen=True)
class LlmContext:
    """What an emitter needs to ask a model.

    Attributes:
        search: Id of the search.
        ordinal: Number of the proposal.
        device: Whose figures the parents have.
        ask: Asks; the answer is paid and kept by whoever serves it.
        tools: Looks up and tries.
        backends: Who may be asked.
        strategies: What may be tried.
        records: What came of it so far.
        begun: Backend and strategy of a proposal that was begun earlier, None for a new one.
        most: Most candidates that may come of one answer.
        cell: An empty cell to aim at, None if there is none.
        place: That cell in words.
        neighbours: Who holds the cells beside it, or beside the chosen parent's.
        broken: A candidate that failed and may be repaired.
        failures: What failed lately, newest first.
        hints: What people said about this search.
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


@dataclass(frozen=True)
class ProposalContext:
    """What an emitter knows when it proposes.

    Attributes:
        operator: The operator as a JSON object (`workers.protocol.Operator`).
        target: What the candidate will be compiled for, such as `sm_90`.
        parents: At least `arity` of them, the chosen one first; fewer where the archive holds fewer.
        trials: Recent trials of this emitter in this search, newest first.
        rng: The only source of chance; seeded from the search's seed and the proposal's ordinal.
        llm: For emitters that ask models.
        draft: For emitters that plant: what a worker drafted from the operator's reference; empty where it could not.
    """

    operator: Mapping[str, Any]
    target: str
    parents: tuple[Parent, ...]
    trials: tuple[EmitterTrial, ...]
    rng: random.Random
    llm: LlmContext | None = None
    draft: str = ""


@dataclass(frozen=True)
class ConversationTurn:
    """One exchange of a conversation: its id, and the candidate that was judged on the way, if one was."""

    exchange: str
    candidate: str | None = None


@dataclass(frozen=True)
class Proposal:
    """A candidate's text.

    Attributes:
        source: The text.
        parents: Ids of what it was made from.
        note: What was tried, in words; canonical per kind of move.
        turns: What was asked on the way; the text is out of the last answer.
        variations: Further candidates out of the same answer.
    """

    source: str
    parents: tuple[str, ...]
    note: str
    turns: tuple[ConversationTurn, ...] = ()
    variations: tuple["Proposal", ...] = ()


@dataclass(frozen=True)
class Edit:
    """Something that may be made of a parent, told before a text is written.

    Attributes:
        note: As in the proposal that comes of it.
        rules: Names of the rules that it applies.
        values: New values of parameters, by name.
    """

    note: str
    rules: tuple[str, ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class NoProposal:
    """Exchanges that leave nothing more to judge. `reason` is a word, `detail` a sentence; empty if all went well."""

    turns: tuple[ConversationTurn, ...]
    reason: str = ""
    detail: str = ""


class Emitter(ABC):
    """Proposes candidates.

    Attributes:
        name: What specs call it; also its key in the table.
        arity: How many parents it needs.
        asks: Whether it asks models: then it gets a talk, and proposes as slowly as these answer.
        proposes_draft: Whether it proposes once, before the search runs, from a worker's draft.
    """

    name: ClassVar[str]
    arity: ClassVar[int] = 1
    asks: ClassVar[bool] = False
    proposes_draft: ClassVar[bool] = False

    def resting(self, trials: Sequence[EmitterTrial]) -> Mapping[str, str]:
        """What it does not try at present, each with the reason, in view of its recent trials; most try everything."""
        return {}

    def edits(self, context: ProposalContext) -> Sequence[Edit]:
        """What it could make of the first parent, as far as it can tell without writing it; most cannot."""
        return ()

    def apply(self, context: ProposalContext, edit: Edit) -> Proposal | None:
        """Go one of those ways; None if that leads nowhere after all."""
        return None

    @abstractmethod
    async def propose(self, context: ProposalContext) -> Proposal | NoProposal | None:
        """Propose one candidate, or None if nothing can be made of these parents.

        Raises:
            BackendError: If a model had to be asked and did not answer.
        """
