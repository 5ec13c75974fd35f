"""Searches of a kernel that can be tuned, proposals made and stored as they do it, and elites for them to come of."""

from dataclasses import fields

from archive.records import CandidateRecord, NewSearch, SearchRecord
from archive.store import Store
from service.generation.proposals import Proposer
from tests.archive import samples
from tests.service import records
from tests.service.records import TUNABLE

OPERATOR = records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)})


async def begin(store: Store, **changes: object) -> SearchRecord:
    """Store a search."""
    await store.operators.put(OPERATOR.digest, OPERATOR.name, OPERATOR.model_dump_json())
    template = records.search(operator=OPERATOR.digest, **changes)
    return await store.searches.create(
        NewSearch(**{item.name: getattr(template, item.name) for item in fields(NewSearch)})
    )


async def make(store: Store, search: SearchRecord, ordinal: int) -> CandidateRecord | None:
    """Have a proposal made and stored; None if there was such a candidate."""
    proposer = Proposer(store)
    proposed = await proposer.propose(proposer.look(search), OPERATOR, ordinal)
    assert proposed is not None
    return (await proposer.keep_all(search, OPERATOR, [proposed]))[0]


async def elect(store: Store, search: SearchRecord, candidate: str, objective: float, cell: int) -> None:
    """Let a candidate hold a cell."""
    variant = samples.new_variant(bundle=f"{cell:064x}", readings=(samples.READINGS,) * len(search.shapes))
    await store.candidates.save_trace(candidate, samples.traced(variant))
    device, bundle = search.devices[0], str(variant.bundle)
    await store.elites.offer(samples.offer(search.id, candidate, objective, device=device, cell=cell, bundle=bundle))
