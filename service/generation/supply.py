"""Supply of candidates: quick emitters propose within a tick, conversations with language models run beside it.

A conversation takes seconds or hours. It counts as in flight, and a later tick stores its result, so that only the tick
changes a search. Every prompt is in the archive: a conversation that a pause, a stop or a kill interrupted is resumed
with the same prompts and answers.
"""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import structlog

from archive.records import CandidateRecord, CandidateState, SearchRecord, SearchState
from archive.store import Store
from service.emitters import EMITTERS
from service.emitters.agent import NAME as AGENT
from service.emitters.base import NoProposal, Proposal
from service.emitters.llm.rendering import clean
from service.evaluation.jobs import JobSubject
from service.evaluation.verdicts import Verdicts
from service.generation.archive_tools import ArchiveTools, CandidateSubmission
from service.generation.contexts import EMITTER as MODEL
from service.generation.contexts import ContextBuilder
from service.generation.emitter_stats import active, receives
from service.generation.proposals import PendingProposal, Proposer, device_of
from service.generation.snapshot import SearchSnapshot
from service.generation.submissions import AgentSubmissions
from service.llm import BackendError, LlmRefused, PermanentFailure, SamePromptOpen, TransientFailure
from service.llm.base import BudgetExhausted, LlmClient
from service.operators.sources import digest
from service.tasks import end
from workers.protocol import Operator

DUPLICATES_PER_EVALUATION = 20
"""Proposals per evaluation of the budget after which a search counts as exhausted."""
EQUAL_PLANS_PER_EVALUATION = 1
"""Candidates with equal plans, per evaluation of the budget, after which a search counts as exhausted: each costs a
trace, and perhaps a call of a model, so a search costs at most twice what its evaluations do."""
MADE_AT_ONCE = 32
"""Maximum number of proposals in a search's turn: if nearly all are duplicates, new reports should come first."""
LANDING_S = 10.0
"""Seconds that candidates in flight get after a stop rule is met. A search is done by then: later verdicts are still
applied, and count."""
REST_S = 15.0
"""Seconds without calls after a failed one: backends already retry what is worth retrying."""
TRIED_FIRST = 3
"""Candidates of a template that are evaluated before all others. The others used up half of a search without gain."""
REMARK_CHARS = 500
"""Maximum length of a remark on a search; models wrote parts of it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Filled:
    """Result of a supply: the number of candidates added, and the new state of the search, if it changes."""

    added: int = 0
    state: SearchState | None = None
    reason: str = ""


@dataclass
class _Slots:
    """Free slots for candidates, the maximum number of conversations, and the number of candidates added.

    `only` is True if all emitters of the search use language models.
    """

    free: int
    talks: int
    only: bool
    added: int = 0


@dataclass
class _Template:
    """Answer with variations that take free slots one by one; its exchange stays open until the last has one.

    `tried` are the ids of its candidates so far. The first `TRIED_FIRST` are evaluated before the others: these follow
    only if the template `pays`, which it does if one of the first won a cell.
    """

    emitter: str
    said: Proposal
    first: CandidateRecord | None
    left: list[Proposal]
    tried: list[str] = field(default_factory=list)
    pays: bool = False


@dataclass
class _Conversations:
    """Conversations of one search.

    `fault` says why the last answer of a model was of no use; empty if it was. `equal_plans` is the number of its
    candidates with equal plans. `tasks` and `emitters` have an entry per conversation, by its ordinal.
    """

    tasks: dict[int, asyncio.Task[Proposal | NoProposal]] = field(default_factory=dict)
    emitters: dict[int, str] = field(default_factory=dict)
    drafts: list[CandidateRecord] = field(default_factory=list)
    templates: list[_Template] = field(default_factory=list)
    following: int = 0
    equal_plans: int = 0
    taken_up: bool = False
    silent_until: float = 0.0
    stopped_at: float | None = None
    silence: BackendError | None = None
    fault: str = ""
    open_prompts: dict[str, int] = field(default_factory=dict)

    def exhausted(self, search: SearchRecord) -> bool:
        """Return True if too many of a search's candidates had equal plans."""
        return self.equal_plans >= EQUAL_PLANS_PER_EVALUATION * search.evaluations

    @property
    def silent(self) -> bool:
        """True if no model may be asked now, after a failure."""
        return time.monotonic() < self.silent_until

    @property
    def busy(self) -> frozenset[str]:
        """Emitters that take no turn now: an agent works alone in a search."""
        return frozenset(name for name in self.emitters.values() if EMITTERS[name].receives)

    def silenced_for_good(self) -> str:
        """Return the reason for which no model will answer again; empty if one may."""
        if self.silent and isinstance(self.silence, BudgetExhausted):
            return f"the language model budget is used up: {self.silence.detail}"
        if self.silent and isinstance(self.silence, PermanentFailure):
            return f"no language model answers: {self.silence.detail}"
        return ""

    def rest(self, ordinal: int, error: BaseException) -> None:
        """Have no model asked for a while, after the conversation of an ordinal failed."""
        after = error.retry_after_s if isinstance(error, TransientFailure) else None
        self.silent_until = time.monotonic() + (after or REST_S)
        if isinstance(error, SamePromptOpen):  # Its ordinal is free again, and so are models once a conversation ends.
            self.following -= int(ordinal == self.following - 1)
        else:
            self.silence = error if isinstance(error, BackendError) else None

    def allot(self) -> int:
        """Return the next free ordinal."""
        self.following += 1
        return self.following - 1


class CandidateSupply:
    """Fills the free slots of searches.

    Attributes:
        submissions: Candidates that agents submit; they get free slots first.
    """

    def __init__(self, store: Store, proposer: Proposer, verdicts: Verdicts, ask: LlmClient | None) -> None:
        """Prepare; without `ask`, emitters that use language models propose nothing."""
        self._store = store
        self._proposer = proposer
        self._verdicts = verdicts
        self._contexts = ContextBuilder(store, proposer.compilers)
        self._ask = ask
        self.submissions = AgentSubmissions(store, proposer)
        self._talks: dict[str, _Conversations] = {}

    def waiting(self, search: str) -> int:
        """Return the number of a search's running conversations; each takes one slot."""
        talks = self._talks.get(search)
        return 0 if talks is None else len(talks.tasks)

    async def retain(self, searches: Collection[str]) -> None:
        """End the conversations of all other searches. Their paid answers stay in the archive."""
        self.submissions.retain(searches)
        for search in self._talks.keys() - set(searches):
            await end(self._talks.pop(search).tasks.values())

    async def close(self) -> None:
        """End all conversations."""
        await self.retain(())

    async def settle(self, search: SearchRecord, operator: Operator) -> int:
        """Store the results of finished conversations. Returns the number of candidates added."""
        talks = self._talks.get(search.id)
        if talks is None:
            return 0
        drafts, talks.drafts = talks.drafts, []
        for candidate in drafts:
            await self._verdicts.trace(JobSubject(search, operator, candidate))
        added = len(drafts)
        for ordinal in sorted(number for number, task in talks.tasks.items() if task.done()):
            added += await self._settle(search, operator, talks, ordinal)
            del talks.tasks[ordinal], talks.emitters[ordinal]
        return added

    async def stop(self, search: SearchRecord, reason: str) -> Filled:
        """Propose nothing more for a search that a stop rule ends.

        It is done once its conversations are over, and all its candidates are evaluated or `LANDING_S` have passed.
        """
        talks = self._talks.setdefault(search.id, _Conversations())
        talks.stopped_at = talks.stopped_at or time.monotonic()
        landing = time.monotonic() < talks.stopped_at + LANDING_S
        in_flight = landing and (await self._store.candidates.count(search.id)).in_flight
        return Filled() if talks.tasks or talks.drafts or in_flight else Filled(0, SearchState.DONE, reason)

    async def supply(self, search: SearchRecord, operator: Operator, free: int) -> Filled:
        """Propose candidates for the free slots of a search.

        Args:
            search: A running search.
            operator: Its operator.
            free: Number of free slots; conversations take slots too.
        """
        talks = self._talks.setdefault(search.id, _Conversations())
        talks.stopped_at = None  # A rule that was met may have been replaced.
        asking = [name for name in active(search) if EMITTERS[name].asks]
        if asking and not talks.taken_up and not talks.silent:
            await self._take_up(search, operator, talks)
        counts = await self._store.candidates.count(search.id)
        talks.following, talks.equal_plans = max(talks.following, counts.proposals), counts.equal_plans
        only = bool(asking) and len(asking) == len(active(search))
        places = free + len(talks.tasks) + counts.in_flight
        slots = _Slots(
            free=min(free, search.evaluations - counts.candidates - len(talks.tasks)),
            talks=places if only else max(1, places // 2),
            only=only,
        )
        for candidate in await self.submissions.accept(search, operator, slots.free, talks.allot):
            slots.free, slots.added = slots.free - 1, slots.added + 1
            await self._verdicts.trace(JobSubject(search, operator, candidate))
        dry = await self._fill(search, operator, talks, slots)
        state, reason = await self._ending(search, talks, dry=dry, quick=not only, asking=bool(asking))
        if state is None and asking:
            state, reason = _remark(search, talks, only=only)
        return Filled(slots.added, state, reason)

    async def _fill(self, search: SearchRecord, operator: Operator, talks: _Conversations, slots: _Slots) -> bool:
        """Propose until no slot is free. Returns True if the emitters without a model had nothing to propose."""
        for template in list(talks.templates):
            while slots.free > 0 and template in talks.templates and await _may_vary(self._store, search, template):
                await self._vary(search, operator, talks, template, slots)
        if not active(search):
            return True
        snapshot, left = self._proposer.look(search), MADE_AT_ONCE
        while slots.free > 0 and left > 0 and _is_fresh(search, talks):
            made, dry = await self._make(snapshot, operator, talks, slots, left)
            for candidate in await self._proposer.keep_all(search, operator, made):
                if candidate is not None:
                    slots.free, slots.added = slots.free - 1, slots.added + 1
                    await self._verdicts.trace(JobSubject(search, operator, candidate))
            if dry or not made:
                return dry
            left -= len(made)
        return False

    async def _make(
        self, snapshot: SearchSnapshot, operator: Operator, talks: _Conversations, slots: _Slots, most: int
    ) -> tuple[list[PendingProposal], bool]:
        """Make proposals for the free slots, and start conversations, which take slots at once.

        Known duplicates take no slot, but count towards `most`.

        Returns:
            The proposals, and True if there were no more.
        """
        made: list[PendingProposal] = []
        fresh: set[str] = set()
        while slots.free > len(fresh) and len(made) < most and _is_fresh(snapshot.search, talks):
            await asyncio.sleep(0)  # The event loop serves pages as well.
            name = await self._turn(snapshot, talks, slots)
            if name is not None:
                self._start(snapshot.search, operator, talks, talks.allot(), name)
                slots.free -= 1
                continue
            proposed = None if slots.only else await self._proposer.propose(snapshot, operator, talks.allot())
            if proposed is None:
                return made, not slots.only
            made.append(proposed)
            if not self._proposer.is_known(snapshot.search, proposed):
                fresh.add(digest(proposed.proposal.source))
        return made, False

    async def _turn(self, snapshot: SearchSnapshot, talks: _Conversations, slots: _Slots) -> str | None:
        """Return the emitter that may start a conversation now; None if it is another emitter's turn."""
        if (
            not any(EMITTERS[name].asks for name in active(snapshot.search))
            or talks.silent
            or len(talks.tasks) >= slots.talks
        ):
            return None
        name = await self._proposer.turn(snapshot, talks.following, talks.busy)
        return name if name is not None and EMITTERS[name].asks else None

    async def _ending(
        self, search: SearchRecord, talks: _Conversations, *, dry: bool, quick: bool, asking: bool
    ) -> tuple[SearchState | None, str]:
        """Return the new state of a search with its reason; None while it goes on."""
        counts = await self._store.candidates.count(search.id)
        if counts.in_flight or talks.tasks or talks.drafts:
            return None, ""
        if counts.candidates >= search.evaluations:
            for template in talks.templates:
                await _conclude(self._store, template.said, template.first)
            return SearchState.DONE, ""
        if talks.templates:
            return None, ""
        if not _is_fresh(search, talks) or (dry and not asking and not receives(search)):
            said = f": {counts.equal_plans} candidates had plans with a verdict" if talks.exhausted(search) else ""
            return SearchState.DONE, f"nothing new to propose{said}"
        silenced = talks.silenced_for_good() if dry or not quick else ""
        return (SearchState.DONE, silenced) if silenced else (None, "")

    async def _take_up(self, search: SearchRecord, operator: Operator, talks: _Conversations) -> None:
        """Resume the conversations that a pause, a stop or a kill interrupted."""
        talks.taken_up = True
        for ordinal in await self._store.attempts.open(search.id):
            begun = await self._store.attempts.begun(search.id, ordinal)
            name = AGENT if any(exchange.strategy == AGENT for exchange in begun) else MODEL
            if ordinal not in talks.tasks and name in search.emitters:
                self._start(search, operator, talks, ordinal, name)
            talks.following = max(talks.following, ordinal + 1)

    def _start(self, search: SearchRecord, operator: Operator, talks: _Conversations, ordinal: int, name: str) -> None:
        conversation = self._converse(search, operator, talks, ordinal, name)
        talks.tasks[ordinal] = asyncio.create_task(conversation, name=f"{search.id}:{ordinal}")
        talks.emitters[ordinal] = name

    async def _converse(
        self, search: SearchRecord, operator: Operator, talks: _Conversations, ordinal: int, name: str
    ) -> Proposal | NoProposal:
        if self._ask is None:
            raise PermanentFailure("no backend is configured")
        begun = await self._store.attempts.begun(search.id, ordinal)
        device = device_of(search, ordinal)
        submission = CandidateSubmission(name, talks.allot, talks.drafts.append)
        tools = ArchiveTools(self._store, self._proposer, search, operator, device, submission)
        if not begun:  # One that was begun may have all its answers in the archive.
            allowed = "agents" if EMITTERS[name].receives else "backends"
            self._ask.require_open(tuple((search.llm or {}).get(allowed) or ()))
        context = await self._contexts.write(search, operator, ordinal, begun, self._ask, tools, talks.open_prompts)
        said = await EMITTERS[name].propose(context)
        if said is None:
            raise PermanentFailure("no backend takes calls for any of its strategies")
        return said

    async def _settle(self, search: SearchRecord, operator: Operator, talks: _Conversations, ordinal: int) -> int:
        """Store the result of one conversation. Returns the number of candidates added."""
        task, name = talks.tasks[ordinal], talks.emitters[ordinal]
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            await _fall_silent(self._store, search, talks, ordinal, error)
            return 0
        said = task.result()
        talks.silence, talks.silent_until = None, 0.0
        talks.fault = ""
        if isinstance(said, NoProposal) and said.reason:
            talks.fault = f"{said.reason}: {said.detail}"
            log.info("answer of a model is unusable", search=search.id, ordinal=ordinal, reason=talks.fault)
        first = await self._store.attempts.proposed(search.id, ordinal)  # A kill may have come after it was stored.
        if first is None and isinstance(said, Proposal):
            if (await self._store.candidates.count(search.id)).candidates >= search.evaluations:
                said = NoProposal(said.turns, "too_late", "the search had used its evaluations when the answer came")
            else:
                first = await self._proposer.keep(search, operator, ordinal, name, said)
        if first is None:
            await self._store.attempts.pass_over(search.id, ordinal, name)
        if isinstance(said, Proposal) and said.variations:
            tried = [] if first is None else [first.id]
            talks.templates.append(_Template(name, said, first, list(said.variations), tried))
        else:
            await _conclude(self._store, said, first)
        if first is None or first.state is not CandidateState.QUEUED:
            return 0
        await self._verdicts.trace(JobSubject(search, operator, first))
        return 1

    async def _vary(
        self, search: SearchRecord, operator: Operator, talks: _Conversations, template: _Template, slots: _Slots
    ) -> None:
        """Give a slot to the next variation of a template; duplicates need none."""
        if not template.left:
            await _conclude(self._store, template.said, template.first)
            talks.templates.remove(template)
            return
        variation = template.left.pop(0)
        if template.first is not None:
            variation = replace(variation, parents=(template.first.id,))
        candidate = await self._proposer.keep(search, operator, talks.allot(), template.emitter, variation)
        if candidate is not None:
            template.tried.append(candidate.id)
            slots.free, slots.added = slots.free - 1, slots.added + 1
            await self._verdicts.trace(JobSubject(search, operator, candidate))


async def _fall_silent(
    store: Store, search: SearchRecord, talks: _Conversations, ordinal: int, error: BaseException | None
) -> None:
    """Ask no model for a while. A proposal whose call was paid but gave no answer is over."""
    if isinstance(error, LlmRefused) or getattr(error, "paid", False):
        await store.attempts.pass_over(search.id, ordinal, talks.emitters[ordinal])
    if isinstance(error, LlmRefused):
        talks.fault = error.detail
        log.info("a prompt was refused", search=search.id, ordinal=ordinal, reason=error.detail)
    if isinstance(error, LlmRefused) or error is None:
        return
    talks.rest(ordinal, error)
    if isinstance(error, SamePromptOpen):
        return
    if isinstance(error, BackendError):
        log.warning("no model answered", search=search.id, ordinal=ordinal, reason=error.detail)
    else:
        talks.taken_up = False
        log.error("conversation failed", search=search.id, ordinal=ordinal, exc_info=error)


async def _may_vary(store: Store, search: SearchRecord, template: _Template) -> bool:
    """Return True if the next variation of a template may be evaluated; drop all if the first ones won no cell."""
    if template.pays or len(template.tried) < TRIED_FIRST or not template.left:
        return True
    found = [await store.candidates.get(id) for id in template.tried]
    if any(candidate.state is not CandidateState.JUDGED for candidate in found):
        return False
    offers = await store.attempts.offers(search.id, template.emitter)
    template.pays = any(offer.candidate in template.tried and offer.gain is not None for offer in offers)
    if not template.pays:
        template.left.clear()
    return True


async def _conclude(store: Store, said: Proposal | NoProposal, first: CandidateRecord | None) -> None:
    """Store the outcome of each exchange."""
    if not said.turns:
        return
    *steps, last = said.turns
    for turn in steps:
        await store.exchanges.conclude(turn.exchange, _outcome(turn.candidate), "", turn.candidate)
    change = said.change if isinstance(said, Proposal) else ""
    candidate = first.id if first else last.candidate
    if isinstance(said, NoProposal):
        outcome = "unusable" if said.reason else _outcome(candidate)
        reason = f"{said.reason}: {said.detail}" if said.reason else ""
    else:
        outcome, reason = ("candidate" if candidate else "duplicate"), ""
    await store.exchanges.conclude(last.exchange, outcome, reason, candidate, change)


def _remark(search: SearchRecord, talks: _Conversations, *, only: bool) -> tuple[SearchState | None, str]:
    """Return what a running search says of its models, if that changed: why none is asked, or why none is of use."""
    reason, silence = "", talks.silence
    goes_on = "" if only else "; other emitters go on"
    if isinstance(silence, BudgetExhausted | PermanentFailure):
        reason = f"no language model is asked: {silence.detail}{goes_on}"
    elif silence is not None:
        reason = f"no language model answers at the moment: {silence.detail}{goes_on}"
    elif talks.fault:
        reason = f"the last answer of a language model was of no use: {talks.fault}"
    reason = " ".join(clean(reason).split())[:REMARK_CHARS]
    return (None, "") if reason == search.reason else (SearchState.RUNNING, reason)


def _is_fresh(search: SearchRecord, talks: _Conversations) -> bool:
    """Return True if a search may still find new candidates."""
    return not talks.exhausted(search) and talks.following < search.evaluations * DUPLICATES_PER_EVALUATION


def _outcome(candidate: str | None) -> str:
    return "candidate" if candidate else "step"
