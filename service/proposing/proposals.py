"""From an archive to the next candidate: which emitter, which parents, and the proposal stored.

Nothing here is remembered between proposals. Chance comes from the search's seed and the proposal's ordinal, so a
killed search goes on as it would have.
"""

import random
from collections.abc import Iterable, Sequence

from uuid6 import uuid7

from archive.grid import Grid
from archive.policies import Surroundings
from archive.records import SEED_EMITTER, Candidate, Holder, NewCandidate, Search
from archive.selection import preferred, select
from archive.store import Store
from service.emitters import EMITTERS, bandit
from service.emitters.base import Brief, Parent, Proposal, Trial
from service.errors import BadInput
from service.judging.jobs import target_of, trace_key, traced_at
from service.judging.promotion import first_benchmark
from service.operators.sources import digest
from service.proposing.ledger import active, read_ledger
from workers.protocol import Operator

ATTEMPTS = 12
"""Tries to get one proposal before a search counts as exhausted: emitters may find nothing to do with a parent."""


class Proposer:
    """Makes and stores proposals."""

    def __init__(self, store: Store, holder: str | None = None) -> None:
        """Prepare; with a `holder`, proposals are stored only for searches that it holds."""
        self._store = store
        self._holder = holder

    async def plant(self, search: Search, operator: Operator, ordinals: Iterable[int]) -> list[Candidate]:
        """Store the operator's seed kernels of these ordinals as the search's first candidates. Idempotent.

        Raises:
            BadInput: If the operator brings no seed.
        """
        if not operator.seeds:
            raise BadInput(f"operator '{operator.name}' has no seed kernel to start from; add one to its spec", "seeds")
        planted = []
        for ordinal in ordinals:
            proposal = Proposal(source=operator.seeds[ordinal], parents=(), note=f"seed {ordinal}")
            candidate = await self.keep(search, operator, ordinal, SEED_EMITTER, proposal)
            planted += [candidate] if candidate else []
        return planted

    async def propose(self, search: Search, operator: Operator, ordinal: int) -> tuple[bool, Candidate | None]:
        """Make proposal number `ordinal` with the emitters that ask nobody.

        Returns:
            Whether any of them had something to propose, and the stored candidate: None where the search already
            has the same source.
        """
        rng, ledger = chance(search, ordinal), await read_ledger(self._store, search)
        device = rng.choice(search.devices)
        elites = await self._store.elites.holders(search.id, device, search.axes_version)
        around = Surroundings({holder.cell: holder.visits for holder in elites}, Grid(search.axes))
        pinned = preferred(elites, await self._store.pins.list(search.id, device))
        quick = [name for name in ledger.accounts if not EMITTERS[name].asks]
        left: list[str] = []
        for _ in range(ATTEMPTS if quick else 0):
            left = left or bandit.ranked(ledger.accounts, quick, rng)
            name = left.pop(0)
            emitter = EMITTERS[name]
            choices = [select(elites, rng, around, pinned) for _ in range(emitter.arity)]
            chosen = [choice.parent for choice in choices if choice is not None]
            brief = await self._brief(search, operator, ledger.trials[name], chosen, rng)
            proposal = await emitter.propose(brief)
            if isinstance(proposal, Proposal):
                return True, await self.keep(search, operator, ordinal, name, proposal)
        return False, None

    async def turn(self, search: Search, ordinal: int) -> str:
        """The emitter that is first in line for a proposal, those that ask models among them."""
        ledger = await read_ledger(self._store, search)
        return bandit.draw(ledger.accounts, active(search), random.Random(f"{search.seed}:{ordinal}:turn"))

    async def keep(
        self, search: Search, operator: Operator, ordinal: int, emitter: str, proposal: Proposal
    ) -> Candidate | None:
        """Store a proposal as a candidate; None where the search already has the same source."""
        source_digest = digest(proposal.source)
        return await self._store.candidates.add(
            NewCandidate(
                id=str(uuid7()),
                search=search.id,
                ordinal=ordinal,
                emitter=emitter,
                source=proposal.source,
                digest=source_digest,
                trace_key=trace_key(source_digest, operator.digest, search.shapes, traced_at(search)),
                parents=tuple(parent for parent in proposal.parents if parent),
                note=proposal.note,
            ),
            holder=self._holder,
        )

    async def _brief(
        self,
        search: Search,
        operator: Operator,
        trials: tuple[Trial, ...],
        chosen: Sequence[Holder],
        rng: random.Random,
    ) -> Brief:
        parents = [await self._parent(search, elite) for elite in chosen]
        parents = parents or [Parent(candidate="", source=operator.seeds[0])]
        return Brief(
            operator=operator.model_dump(mode="json"),
            target=target_of(search),
            parents=tuple(parents),
            trials=trials,
            rng=rng,
        )

    async def _parent(self, search: Search, elite: Holder) -> Parent:
        candidate = await self._store.candidates.get(elite.candidate)
        variants = await self._store.candidates.variants(elite.candidate)
        readings = await self._store.bundles.readings(elite.bundle)
        return Parent(
            candidate=candidate.id,
            source=candidate.source,
            configuration=next(item.configuration for item in variants if item.index == elite.variant),
            objective=elite.objective,
            cell=elite.cell,
            readings=readings[first_benchmark(search)],
        )


def chance(search: Search, ordinal: int) -> random.Random:
    """What decides all that is left to chance about one proposal."""
    return random.Random(f"{search.seed}:{ordinal}")


def device_of(search: Search, ordinal: int) -> str:
    """The device that a proposal is for."""
    return chance(search, ordinal).choice(search.devices)
