"""Proposals depend on the archive, the search's seed and the ordinal, and on nothing else."""

from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path

import pytest

from archive.records import SEED_EMITTER, Candidate, NewSearch, Search
from archive.store import Store, migrate
from service.errors import BadInput
from service.proposing.proposals import Proposer
from tests.service import records
from tests.service.searching.test_evolution import TUNABLE

OPERATOR = records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'reef.db'}"
    await migrate(url)
    store = await Store.open(url)
    await store.operators.put(OPERATOR.digest, OPERATOR.name, OPERATOR.model_dump_json())
    yield store
    await store.close()


async def _search(store: Store, **changes: object) -> Search:
    template = records.search(operator=OPERATOR.digest, **changes)
    chosen = {item.name: getattr(template, item.name) for item in fields(NewSearch)}
    return await store.searches.create(NewSearch(**chosen))


def _what(candidate: Candidate | None) -> tuple[str, str, str] | None:
    return (candidate.source, candidate.note, candidate.emitter) if candidate else None


async def test_seeds_are_planted_once(store: Store) -> None:
    search, proposer = await _search(store), Proposer(store)
    first = await proposer.plant(search, OPERATOR, [0])
    again = await proposer.plant(search, OPERATOR, [0])
    assert [(item.ordinal, item.emitter, item.source) for item in first] == [(0, SEED_EMITTER, TUNABLE)]
    assert again == [] and len(await store.candidates.list(search.id)) == 1


async def test_an_operator_without_a_seed_is_refused_with_what_to_do(store: Store) -> None:
    with pytest.raises(BadInput, match="no seed kernel"):
        await Proposer(store).plant(await _search(store), OPERATOR.model_copy(update={"seeds": ()}), [0])


async def test_equal_seeds_and_ordinals_propose_alike(store: Store) -> None:
    proposer = Proposer(store)
    one, other = [await _search(store, id=name) for name in ("one", "other")]
    for ordinal in range(6):
        _, first = await proposer.propose(one, OPERATOR, ordinal)
        _, second = await proposer.propose(other, OPERATOR, ordinal)
        assert _what(first) == _what(second)


async def test_another_seed_proposes_otherwise(store: Store) -> None:
    proposer = Proposer(store)
    sources = []
    for seed in range(4):
        _, candidate = await proposer.propose(await _search(store, id=f"s{seed}", seed=seed), OPERATOR, 0)
        sources.append(candidate.source if candidate else None)
    assert len(set(sources)) > 1


async def test_a_proposal_that_is_there_already_counts_but_is_not_stored(store: Store) -> None:
    search, proposer = await _search(store), Proposer(store)
    outcomes = [await proposer.propose(search, OPERATOR, ordinal) for ordinal in range(40)]
    counts = await store.candidates.count(search.id)
    repeated = sum(found and candidate is None for found, candidate in outcomes)
    assert repeated > 0
    assert (counts.proposals, counts.candidates) == (40, 40 - repeated)


async def test_a_parent_that_no_emitter_can_change_ends_the_proposing(store: Store) -> None:
    barren = OPERATOR.model_copy(update={"seeds": ("def double(x):\n    return x\n",)})
    assert await Proposer(store).propose(await _search(store), barren, 0) == (False, None)
