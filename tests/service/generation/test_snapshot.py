"""One look at a search serves a few proposals as a look for each would."""

from archive.records import CandidateRecord
from archive.store import Store
from service.generation.proposals import Proposer
from service.generation.snapshot import ParentCache, launched_kernels
from tests.archive.samples import READINGS
from tests.service.generation.making import OPERATOR, begin, elect, make
from tests.service.records import TUNABLE
from tests.workers.runner.plans import bundle_of, kernel
from workers.protocol import ShapeRole


def _what(candidate: CandidateRecord | None) -> tuple[str, str, str] | None:
    return (candidate.source, candidate.note, candidate.emitter) if candidate else None


async def test_proposals_from_one_sight_are_those_of_a_new_sight_each(store: Store) -> None:
    one, other = [await begin(store, id=name) for name in ("one", "other")]
    for search in (one, other):
        (seed,) = await Proposer(store).add_seeds(search, OPERATOR, [0])
        for cell, objective in enumerate((1.0, 1.2)):
            await elect(store, search, seed.id, objective, cell)
    proposer = Proposer(store)
    snapshot = proposer.look(one)
    made = [await proposer.propose(snapshot, OPERATOR, ordinal) for ordinal in range(1, 9)]
    together = await proposer.keep_all(one, OPERATOR, [each for each in made if each is not None])
    apart = [await make(store, other, ordinal) for ordinal in range(1, 9)]
    assert [_what(each) for each in together] == [_what(each) for each in apart] and any(apart)
    counts = [await store.candidates.count(search.id) for search in (one, other)]
    assert counts[0] == counts[1]
    children = [await store.elites.visits(search.id, search.devices[0], search.axes_version) for search in (one, other)]
    assert children[0] == children[1] and sum(children[0].values()) == 2 * 8


async def test_what_is_read_once_stays_what_it_was(store: Store) -> None:
    search = await begin(store)
    (seed,) = await Proposer(store).add_seeds(search, OPERATOR, [0])
    await elect(store, search, seed.id, 1.0, 0)
    proposer, device = Proposer(store), search.devices[0]
    snapshot = proposer.look(search)
    before = [*await snapshot.elites(device)]
    await elect(store, search, seed.id, 1.2, 1)
    assert [*await snapshot.elites(device)] == before != [*await proposer.look(search).elites(device)]
    parent = await snapshot.parent(before[0])
    assert (parent.candidate, parent.source, parent.objective, parent.cell) == (seed.id, TUNABLE, 1.0, 0)


async def test_an_elite_is_read_once_for_each_cell_that_it_holds(store: Store) -> None:
    search = await begin(store)
    (seed,) = await Proposer(store).add_seeds(search, OPERATOR, [0])
    for cell, objective in enumerate((1.0, 1.2)):
        await elect(store, search, seed.id, objective, cell)
    parents, device = ParentCache(store), search.devices[0]
    first, second = await store.elites.holders(search.id, device, search.axes_version)
    found = await parents.find(search, first)
    assert (found.candidate, found.source, found.objective, found.cell) == (seed.id, seed.source, 1.0, 0)
    assert found.readings == READINGS and found.configuration == {"BLOCK": 1024}
    assert found.launched == launched_kernels((await store.bundles.get(first.bundle)).document)
    assert await parents.find(search, first._replace(visits=first.visits + 1)) is found
    assert (await parents.find(search, second)).cell == 1


def test_kernels_of_other_than_benchmark_shapes_are_not_counted() -> None:
    (plan,) = bundle_of(kernel()).plans
    (launch,) = plan.launches
    other = plan.model_copy(
        update={
            "shape": plan.shape.model_copy(update={"role": ShapeRole.BOUNDARY}),
            "steps": (launch.model_copy(update={"function": "rare_kernel"}),),
        }
    )
    document = bundle_of(kernel()).model_copy(update={"plans": (plan, other)}).model_dump_json()
    assert plan.shape.role is ShapeRole.BENCHMARK and launched_kernels(document) == {launch.function}
