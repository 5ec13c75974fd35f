"""Proposals: choose emitter and parents for the next candidate, and store what the emitter makes.

Changeable state of a search is read again for each snapshot. Randomness comes from the search's seed and the proposal's
ordinal, so that a killed search continues exactly as it would have.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from uuid6 import uuid7

from archive.records import SEED_EMITTER, CandidateRecord, NewCandidate, SearchRecord
from archive.selection import PINNED_SHARE, select
from archive.store import Store
from service.emitters import EMITTERS, bandit
from service.emitters.base import Edit, Emitter, EmitterTrial, Parent, Proposal, ProposalContext
from service.evaluation.jobs import target_of, trace_key, traced_at
from service.generation.emitter_stats import active, selection_of
from service.generation.known_plans import KnownPlans
from service.generation.screening import STARTS, TAKEN, RankedEdit, Screening, is_blind
from service.generation.snapshot import ParentCache, SearchSnapshot
from service.operators.sources import digest
from workers.protocol import Operator

ATTEMPTS = 12
"""Attempts at one proposal before a search counts as exhausted: emitters may find nothing to do with a parent."""
REMEMBERED = 65_536
"""Maximum number of known sources in memory, two hundred bytes each."""
NOWHERE = ""
"""Placeholder for the digest of an edit's result if the edit does not apply."""


class PendingProposal(NamedTuple):
    """Proposal that is not stored yet.

    Attributes:
        ordinal: Its number in the search.
        emitter: Name of its emitter.
        proposal: The proposal itself.
        screened: Emitters of the edits that screening skipped in its favour.
    """

    ordinal: int
    emitter: str
    proposal: Proposal
    screened: tuple[str, ...] = ()


class Proposer:
    """Makes and stores proposals."""

    def __init__(
        self,
        store: Store,
        holder: str | None = None,
        compilers: Callable[[SearchRecord], tuple[str, ...]] = lambda search: (),
    ) -> None:
        """Prepare.

        Args:
            store: The archive.
            holder: Holder of leases: proposals are stored only for searches that it leases. None for all searches.
            compilers: Returns the Triton releases that may compile a search's candidates; empty if unknown.
        """
        self.compilers = compilers
        self._store = store
        self._holder = holder
        self._screening = Screening(store)
        self._known_plans = KnownPlans(store)
        self._parents = ParentCache(store)
        self._had: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._leads: OrderedDict[tuple[str, str, str], str] = OrderedDict()

    async def add_seeds(
        self, search: SearchRecord, operator: Operator, ordinals: Iterable[int]
    ) -> list[CandidateRecord]:
        """Store the operator's seed kernels of these ordinals as the search's first candidates. Idempotent.

        They are stored in one transaction, so that a refused reference seed finds the seeds after it.
        """
        made = [
            PendingProposal(
                ordinal, SEED_EMITTER, Proposal(source=operator.seeds[ordinal], parents=(), note=f"seed {ordinal}")
            )
            for ordinal in ordinals
        ]
        return [candidate for candidate in await self.keep_all(search, operator, made) if candidate]

    def look(self, search: SearchRecord) -> SearchSnapshot:
        """Take a snapshot of a search, to make a few proposals."""
        return SearchSnapshot(self._store, search, self._parents)

    async def propose(self, snapshot: SearchSnapshot, operator: Operator, ordinal: int) -> PendingProposal | None:
        """Make proposal number `ordinal` without a language model; None if no emitter has one."""
        search, stats = snapshot.search, await snapshot.stats()
        rng = chance(search, ordinal)
        device = rng.choice(search.devices)
        elites, visits = await snapshot.elites(device), await snapshot.visits(device)
        pinned = await snapshot.pinned(device)
        quick = [name for name in stats.accounts if not EMITTERS[name].asks]
        if selection_of(search).screening and not is_blind(search, ordinal):
            preferred = pinned if pinned and rng.random() < PINNED_SHARE else elites
            best = sorted(preferred, key=lambda elite: (-elite.objective, elite.cell))[:STARTS]
            starts = {elite.candidate: await snapshot.parent(elite) for elite in reversed(best)}
            if proposed := await self._screened(snapshot, operator, ordinal, list(starts.values())):
                return proposed
        left, known = list[str](), None
        for _ in range(ATTEMPTS if quick else 0):
            left = left or bandit.ranked(stats.accounts, quick, rng)
            name = left.pop(0)
            emitter = EMITTERS[name]
            choices = [select(elites, rng, visits, pinned) for _ in range(emitter.arity)]
            chosen = [await snapshot.parent(elite) for elite in choices if elite is not None]
            proposal = await emitter.propose(self._context(search, operator, stats.trials[name], chosen, rng))
            if not isinstance(proposal, Proposal):
                continue
            if await self._known_plans.has(search, target_of(search), proposal.source, rng):
                known = known or PendingProposal(ordinal, name, proposal)
                continue
            snapshot.count_children(proposal.parents)
            return PendingProposal(ordinal, name, proposal)
        return known

    async def turn(self, snapshot: SearchSnapshot, ordinal: int, busy: Collection[str] = ()) -> str | None:
        """Choose the emitter for a proposal, including those that use a language model; None if all are busy."""
        search, stats = snapshot.search, await snapshot.stats()
        free = [name for name in active(search) if name not in busy]
        return bandit.draw(stats.accounts, free, random.Random(f"{search.seed}:{ordinal}:turn")) if free else None

    async def keep(
        self, search: SearchRecord, operator: Operator, ordinal: int, emitter: str, proposal: Proposal
    ) -> CandidateRecord | None:
        """Store a proposal as a candidate; None if the search already has the same source."""
        (candidate,) = await self.keep_all(search, operator, [PendingProposal(ordinal, emitter, proposal)])
        return candidate

    async def keep_all(
        self, search: SearchRecord, operator: Operator, made: Sequence[PendingProposal]
    ) -> Sequence[CandidateRecord | None]:
        """Store proposals as candidates; None for each whose source the search already has."""
        kept = await self._store.candidates.add_all(
            [_record(search, operator, each) for each in made],
            holder=self._holder,
            screened=[emitter for each in made for emitter in each.screened],
        )
        self._had.update(((search.id, digest(each.proposal.source)), None) for each in made)
        for remembered in (self._had, self._leads):
            while len(remembered) > REMEMBERED:
                remembered.popitem(last=False)
        return kept

    def is_known(self, search: SearchRecord, proposed: PendingProposal) -> bool:
        """Return True if a candidate with the same source is remembered; candidates are never removed."""
        return (search.id, digest(proposed.proposal.source)) in self._had

    def _context(
        self,
        search: SearchRecord,
        operator: Operator,
        trials: tuple[EmitterTrial, ...],
        chosen: Sequence[Parent],
        rng: random.Random,
    ) -> ProposalContext:
        return ProposalContext(
            operator=operator.model_dump(mode="json"),
            target=target_of(search),
            parents=tuple(chosen) or (Parent(candidate="", source=operator.seeds[search.reference_seed]),),
            trials=trials,
            rng=rng,
            compilers=self.compilers(search),
        )

    async def _screened(
        self, snapshot: SearchSnapshot, operator: Operator, ordinal: int, starts: Sequence[Parent]
    ) -> PendingProposal | None:
        """Return the best-ranked edit of these elites that gives a new source; None if there is none."""
        search, stats = snapshot.search, await snapshot.stats()
        rng = chance(search, ordinal)
        contexts = {
            (name, start.candidate): self._context(search, operator, stats.trials[name], [start], rng)
            for start in starts
            for name in stats.accounts
        }
        offered = [
            RankedEdit(name, context.parents[0], edit)
            for (name, _), context in contexts.items()
            for edit in await asyncio.to_thread(EMITTERS[name].edits, context)
        ]
        ranked = await self._screening.rank(search, target_of(search), offered)
        for name, parent, edit in ranked[:TAKEN]:
            context = contexts[name, parent.candidate]
            if edit.values and await self._known_plans.has(search, target_of(search), parent.source, rng, edit.values):
                continue
            if proposal := await self._apply(snapshot, EMITTERS[name], context, edit):
                snapshot.count_children(proposal.parents)
                return PendingProposal(
                    ordinal, name, proposal, tuple(each.emitter for each in ranked if each.edit is not edit)
                )
        return None

    async def _apply(
        self, snapshot: SearchSnapshot, emitter: Emitter, context: ProposalContext, edit: Edit
    ) -> Proposal | None:
        """Apply an edit, if its result is new. The result never changes, so known results are remembered."""
        search, start = snapshot.search, context.parents[0]
        key = (search.id, start.candidate, edit.note)
        if key in self._leads and (search.id, self._leads[key]) in self._had:
            return None
        fixed = replace(context, rng=random.Random(f"{search.seed}:{digest(start.source)}:{edit.note}"))
        proposal = await asyncio.to_thread(emitter.apply, fixed, edit)
        lead = digest(proposal.source) if proposal else NOWHERE
        self._leads[key] = lead
        if lead == NOWHERE or await self._store.candidates.known_digests(search.id, [lead]):
            self._had[search.id, lead] = None
            return None
        if lead in snapshot.made:
            return None
        snapshot.made.add(lead)
        return proposal


def _record(search: SearchRecord, operator: Operator, made: PendingProposal) -> NewCandidate:
    source_digest = digest(made.proposal.source)
    return NewCandidate(
        id=str(uuid7()),
        search=search.id,
        ordinal=made.ordinal,
        emitter=made.emitter,
        source=made.proposal.source,
        digest=source_digest,
        trace_key=trace_key(source_digest, operator.digest, search.shapes, traced_at(search)),
        parents=tuple(parent for parent in made.proposal.parents if parent),
        note=made.proposal.note,
        exchange=made.proposal.exchange,
    )


def chance(search: SearchRecord, ordinal: int) -> random.Random:
    """Return the random generator of one proposal."""
    return random.Random(f"{search.seed}:{ordinal}")


def device_of(search: SearchRecord, ordinal: int) -> str:
    """Return the device that a proposal is for."""
    return chance(search, ordinal).choice(search.devices)
