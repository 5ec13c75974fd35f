"""Proposals depend on the archive, the search's seed and the ordinal, and on nothing else."""

from archive.records import SEED_EMITTER, CandidateRecord
from archive.store import Store
from service.generation.proposals import Proposer
from tests.service.generation.making import OPERATOR, begin, make
from tests.service.records import TUNABLE


def _what(candidate: CandidateRecord | None) -> tuple[str, str, str] | None:
    return (candidate.source, candidate.note, candidate.emitter) if candidate else None


async def test_seeds_are_planted_once(store: Store) -> None:
    search, proposer = await begin(store), Proposer(store)
    first = await proposer.add_seeds(search, OPERATOR, [0])
    again = await proposer.add_seeds(search, OPERATOR, [0])
    assert [(item.ordinal, item.emitter, item.source) for item in first] == [(0, SEED_EMITTER, TUNABLE)]
    assert again == [] and len(await store.candidates.list(search.id)) == 1


async def test_equal_seeds_and_ordinals_propose_alike(store: Store) -> None:
    one, other = [await begin(store, id=name) for name in ("one", "other")]
    for ordinal in range(6):
        assert _what(await make(store, one, ordinal)) == _what(await make(store, other, ordinal))


async def test_another_seed_proposes_otherwise(store: Store) -> None:
    sources = []
    for seed in range(4):
        candidate = await make(store, await begin(store, id=f"s{seed}", seed=seed), 0)
        sources.append(candidate.source if candidate else None)
    assert len(set(sources)) > 1


async def test_a_proposal_that_is_there_already_counts_but_is_not_stored(store: Store) -> None:
    search = await begin(store)
    found = [await make(store, search, ordinal) for ordinal in range(40)]
    counts = await store.candidates.count(search.id)
    repeated = found.count(None)
    assert repeated > 0
    assert (counts.proposals, counts.candidates) == (40, 40 - repeated)


async def test_a_parent_that_no_emitter_can_change_ends_the_proposing(store: Store) -> None:
    proposer = Proposer(store)
    barren = OPERATOR.model_copy(update={"seeds": ("def double(x):\n    return x\n",)})
    assert await proposer.propose(proposer.look(await begin(store)), barren, 0) is None
