"""An elite is read once, and is what the archive says of it."""

from archive.store import Store
from service.generation.parents import ParentCache
from service.generation.proposals import Proposer
from tests.archive.samples import READINGS
from tests.service.generation.making import OPERATOR, begin, elect


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
    assert await parents.find(search, first._replace(visits=first.visits + 1)) is found
    assert (await parents.find(search, second)).cell == 1
