"""A census of a stored search, as answers show it."""

from pathlib import Path

from archive.descriptors import DESCRIPTORS
from service.telling.census import Axis, take_census
from tests.service.lineages import SEED, Made, opened, stored


def test_an_axis_has_a_label_more_than_edges() -> None:
    for descriptor in DESCRIPTORS.values():
        axis = Axis.of(descriptor)
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
    assert nowhere.kernels == 0
