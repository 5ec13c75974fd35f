"""What the axes of a grid are, and what they tell apart among a search's kernels, as answers and commands show it."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel

from archive import axis_statistics as counting
from archive.descriptors import Descriptor, coordinates
from archive.grid import Grid
from archive.records import SearchRecord
from archive.store import Store
from service.evaluation.promotion import first_benchmark


class AxisDescription(BaseModel):
    """A descriptor: bins by fixed edges, and what a kernel in each looks like."""

    name: str
    unit: str
    meaning: str
    edges: list[float]
    labels: list[str]

    @classmethod
    def of(cls, descriptor: Descriptor) -> Self:
        """A descriptor of the table."""
        return cls(
            name=descriptor.name,
            unit=descriptor.unit,
            meaning=descriptor.meaning,
            edges=list(descriptor.edges),
            labels=list(descriptor.labels),
        )


class Spread(BaseModel):
    """How kernels are spread over bins or cells.

    `counts` has those that hold any; `effective` is how many, equally full, would tell as much.
    """

    places: int
    reached: int
    kernels: int
    entropy_bits: float
    effective: float
    largest_share: float
    counts: dict[int, int]

    @classmethod
    def of(cls, spread: counting.BinSpread) -> Self:
        """A spread as it was counted."""
        return cls(
            places=spread.places,
            reached=spread.reached,
            kernels=spread.kernels,
            entropy_bits=spread.entropy_bits,
            effective=spread.effective,
            largest_share=spread.largest_share,
            counts=dict(sorted(spread.counts.items())),
        )


class MutualInformation(BaseModel):
    """Two descriptors, and the part that both tell of what the poorer one tells: 0 (independent) to 1 (the same)."""

    first: str
    second: str
    share: float


class AxisStatistics(BaseModel):
    """What the axes tell apart among the distinct kernels that were correct on a device.

    `axes` span the search's grid, `cells` are its cells; `descriptors` has every axis there is, `shared` every pair
    of which both tell something, the most redundant first. `elites` were held against what their readings say now:
    `moved` are those cells whose holders belong elsewhere, because edges were changed since; re-binning mends that.
    """

    search: str
    device: str
    kernels: int
    axes: list[str]
    cells: Spread
    descriptors: dict[str, Spread]
    shared: list[MutualInformation]
    elites: int
    moved: list[int]

    @classmethod
    def of(
        cls, search: SearchRecord, device: str, census: counting.GridStatistics, elites: int, moved: list[int]
    ) -> Self:
        """A census as it was counted, and the check of where elites lie."""
        shared = sorted(census.shared.items(), key=lambda item: -item[1])
        return cls(
            search=search.id,
            device=device,
            kernels=census.kernels,
            axes=[axis.descriptor for axis in search.axes],
            cells=Spread.of(census.cells),
            descriptors={name: Spread.of(spread) for name, spread in census.descriptors.items()},
            shared=[MutualInformation(first=pair[0], second=pair[1], share=share) for pair, share in shared],
            elites=elites,
            moved=moved,
        )


async def take_census(store: Store, search: SearchRecord, device: str) -> AxisStatistics:
    """Count the distinct correct kernels of a search, and check where its elites lie. Keeps counts only."""
    first, counts = first_benchmark(search), counting.GridCounter(search.axes)
    async for readings in store.bundles.readings_of_correct(search.id, device):
        counts.add(coordinates(readings[first]))
    elites = await store.elites.list(search.id, device, search.axes_version)
    readings_of = await store.lineage.readings({elite.bundle for elite in elites})
    grid = Grid(search.axes)
    known = {elite.cell: readings_of[elite.bundle][first] for elite in elites if elite.bundle in readings_of}
    moved = [cell for cell, readings in known.items() if _cell(grid, readings) != cell]
    return AxisStatistics.of(search, device, counts.census(), len(known), moved)


def _cell(grid: Grid, readings: Mapping[str, Any]) -> int | None:
    """Where readings belong by the edges of today, None if nowhere in this grid."""
    try:
        return grid.index(coordinates(readings))
    except ValueError:  # An axis has more bins today than when the grid was laid out.
        return None
