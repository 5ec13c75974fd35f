"""Kernels are placed anew out of what is stored; nothing is lost, on both databases."""

from collections.abc import Mapping

import pytest

from archive.descriptors import DESCRIPTORS
from archive.errors import RecordConflict, RecordNotFound
from archive.grid import Grid
from archive.records import NewPin, Placement, SearchState
from archive.store import Store
from tests.archive.samples import (
    DEVICE,
    READINGS,
    new_report,
    new_variant,
    offer,
    stored_candidate,
    stored_search,
    traced,
)

OLD = (DESCRIPTORS["num_warps"].axis,)
NEW = (DESCRIPTORS["num_warps"].axis, DESCRIPTORS["registers"].axis)
KERNELS = [
    # Warps, registers (None where nobody knows them) and objective, in the order of their offers.
    (4, 40, 1.0),
    (4, 100, 0.9),
    (8, 40, 1.2),
    (4, 40, 1.1),
    (4, None, 2.0),
]


async def searched(store: Store) -> tuple[str, list[str]]:
    """A search that found the kernels above on its old axis, and their bundles."""
    search = await stored_search(store, axes=OLD)
    candidate = await stored_candidate(store, search.id)
    found = [
        new_variant(index, readings=({**READINGS, "num_warps": warps, "registers": registers},))
        for index, (warps, registers, _) in enumerate(KERNELS)
    ]
    await store.candidates.save_trace(candidate, traced(*found))
    for variant, (warps, _, objective) in zip(found, KERNELS, strict=True):
        place: Mapping[str, object] = {"cell": DESCRIPTORS["num_warps"].bin(warps), "bundle": variant.bundle}
        await store.elites.offer(offer(search.id, candidate, objective, variant=variant.index, **place))
    return search.id, [variant.bundle or "" for variant in found]


def cell(warps: int, registers: int) -> int:
    where = {"num_warps": warps, "registers": registers}
    found = Grid(NEW).index({name: {"bin": DESCRIPTORS[name].bin(value)} for name, value in where.items()})
    assert found is not None
    return found


async def test_every_offer_is_made_again_in_the_new_grid(store: Store) -> None:
    search, bundles = await searched(store)
    before = await store.elites.list(search, DEVICE, 1)
    await store.pins.put(NewPin("pin", search, DEVICE, 1, None), most=9)
    with pytest.raises(RecordConflict, match="preparing"):
        await store.rebinning.rebin(search, NEW)
    await store.searches.set_state(search, SearchState.DONE)

    done = await store.rebinning.rebin(search, NEW)

    assert (done.axes_version, done.offers, done.unplaced, done.cells) == (2, 4, 1, {DEVICE: 3})
    held = await store.elites.list(search, DEVICE, 2)
    expected = {cell(4, 40): (bundles[3], 2), cell(4, 100): (bundles[1], 1), cell(8, 40): (bundles[2], 1)}
    assert {elite.cell: (elite.bundle, elite.revision) for elite in held} == expected
    assert held[0].coordinates["registers"] == {"value": 40.0, "bin": 1}
    assert [elite.candidate for elite in await store.elites.list(search, DEVICE, 1)] == [e.candidate for e in before]
    known = await store.searches.get(search)
    assert (known.axes, known.axes_version) == (NEW, 2) and await store.pins.list(search, DEVICE) == []


async def test_history_and_accounts_are_those_of_the_new_grid(store: Store) -> None:
    search, _ = await searched(store)
    await store.searches.set_state(search, SearchState.DONE)
    old = await store.elites.history(search, DEVICE)
    tallied = (await store.elites.progress(search, DEVICE, 5)).emitters

    await store.rebinning.rebin(search, NEW)

    told = [(entry.cell, entry.placement) for entry in reversed(await store.elites.history(search, DEVICE))]
    here = cell(4, 40)
    assert told == [
        (here, Placement.NEW),
        (cell(4, 100), Placement.NEW),
        (cell(8, 40), Placement.NEW),
        (here, Placement.IMPROVED),
    ]
    again = {entry.job: entry.offered_at for entry in await store.elites.history(search, DEVICE)}
    assert again.items() <= {entry.job: entry.offered_at for entry in old}.items()
    gains = [landing.gain for landing in await store.attempts.offers(search, "tune")]
    assert gains == pytest.approx([1.0, 0.9, 1.2, 0.1])
    assert (await store.elites.progress(search, DEVICE, 20)).emitters == tallied


async def test_back_and_forth_gives_the_first_grid_again(store: Store) -> None:
    search, bundles = await searched(store)
    await store.searches.set_state(search, SearchState.DONE)
    first = [(elite.cell, elite.bundle, elite.revision) for elite in await store.elites.list(search, DEVICE, 1)]
    assert first[0][1:] == (bundles[4], 3)  # It has no place in the grid in between.
    await store.rebinning.rebin(search, NEW)
    done = await store.rebinning.rebin(search, OLD)
    assert (done.axes_version, done.offers, done.unplaced) == (3, len(KERNELS), 0)
    assert [(e.cell, e.bundle, e.revision) for e in await store.elites.list(search, DEVICE, 3)] == first


async def test_what_was_withdrawn_stays_out(store: Store) -> None:
    search, bundles = await searched(store)
    await store.elites.withdraw(search, DEVICE, bundles[2], "final of it")
    await store.searches.set_state(search, SearchState.STOPPED)
    await store.rebinning.rebin(search, NEW)
    assert cell(8, 40) not in {elite.cell for elite in await store.elites.list(search, DEVICE, 2)}


async def test_a_search_that_is_not_quiet_stays_as_it_is(store: Store) -> None:
    with pytest.raises(RecordNotFound):
        await store.rebinning.rebin("none", NEW)
    search = await stored_search(store)
    await stored_candidate(store, search.id)
    await store.searches.set_state(search.id, SearchState.PAUSED)
    with pytest.raises(RecordConflict, match=r"1 candidates .* still in flight"):
        await store.rebinning.rebin(search.id, NEW)
    assert (await store.searches.get(search.id)).axes_version == 1


async def test_provisional_holders_stay_provisional_in_the_new_grid(store: Store) -> None:
    search, bundles = await searched(store)
    [candidate] = [each.id for each in await store.candidates.list(search)]
    found = await store.candidates.variants(candidate)
    for index, low in ((1, 1.5), (2, 1.6)):
        bundle = found[index].bundle
        held = offer(search, candidate, low, variant=index, bundle=bundle, cell=7 + index, low=low, mid=low, high=low)
        assert await store.provisional.hold(held, 0.005) is Placement.PROVISIONAL
    await store.searches.set_state(search, SearchState.DONE)
    await store.rebinning.rebin(search, NEW)
    elites = {each.cell: each.bundle for each in await store.elites.list(search, DEVICE, 2)}
    assert elites[cell(4, 100)] == bundles[1] and elites[cell(8, 40)] == bundles[2]
    moved = {each.cell: each.objective for each in await store.provisional.list(search, DEVICE, 2)}
    assert moved == {cell(4, 100): 1.5, cell(8, 40): 1.6}


async def test_an_offer_by_a_first_measurement_makes_no_elite_of_the_new_grid(store: Store) -> None:
    search, bundles = await searched(store)
    [candidate] = [each.id for each in await store.candidates.list(search)]
    holder = offer(search, candidate, 3.0, variant=0, bundle=bundles[0], cell=7)
    assert await store.provisional.hold(holder, 0.005) is Placement.PROVISIONAL
    for index, low in ((1, 1.9), (2, 2.5)):
        report = new_report(search, candidate, bundle=bundles[index], provenance="measured")
        await store.reports.save(report)
        kept_out = offer(search, candidate, low, variant=index, bundle=bundles[index], job=report.job, cell=7)
        assert await store.provisional.hold(kept_out, 0.005) is Placement.REJECTED
    await store.searches.set_state(search, SearchState.DONE)
    await store.rebinning.rebin(search, NEW)
    objectives = {each.cell: each.objective for each in await store.elites.list(search, DEVICE, 2)}
    assert (objectives[cell(4, 100)], objectives[cell(8, 40)]) == (0.9, 1.2)
