"""A census of a stored search, as answers show it."""

from pathlib import Path

import pytest

from archive.descriptors import DESCRIPTORS
from service.analysis.axis_statistics import AxisDescription, take_census
from tests.archive.samples import offer
from tests.archives import opened
from tests.service.lineages import SEED, Made, named, stored


def test_an_axis_has_a_label_more_than_edges() -> None:
    for descriptor in DESCRIPTORS.values():
        axis = AxisDescription.of(descriptor)
        assert (axis.name, len(axis.labels)) == (descriptor.name, len(axis.edges) + 1)


async def test_the_correct_kernels_of_a_search_are_counted(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        search = await stored(store, (SEED, Made("gained", 8.0), Made("lost", 12.0)))
        census = await take_census(store, search, search.devices[0])
        nowhere = await take_census(store, search, "h200")
    assert census.kernels > 0
    assert census.axes == [axis.descriptor for axis in search.axes]
    assert census.cells.reached == len(census.cells.counts)
    assert [pair.share for pair in census.shared] == sorted((pair.share for pair in census.shared), reverse=True)
    assert nowhere.kernels == nowhere.elites == 0


async def test_elites_that_other_edges_would_place_elsewhere_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        search = await stored(store, (SEED,), axes=(DESCRIPTORS["num_warps"].axis,))
        (variant,) = await store.candidates.variants(named(search, "seed"))
        cell = DESCRIPTORS["num_warps"].bin(8)
        await store.elites.offer(offer(search.id, variant.candidate, cell=cell, bundle=variant.bundle))
        before = await take_census(store, search, search.devices[0])
        monkeypatch.setattr(type(DESCRIPTORS["num_warps"]), "edges", (1, 2, 4, 6, 7))
        after = await take_census(store, search, search.devices[0])
    assert (before.elites, before.moved, after.moved) == (1, [], [cell])
