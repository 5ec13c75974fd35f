import pytest

from service.dashboard.overview import BestResult, load_overview_parts
from tests.service.dashboard.conftest import Filled, Hostile, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_searches_come_newest_first_with_what_they_found(
    service: Service, filled: Filled, hostile: Hostile
) -> None:
    pulse, searches = await load_overview_parts(service.coordinator, None)
    assert [entry.search.id for entry in searches.entries] == [hostile.search.id, filled.search.id]
    assert searches.older is None and searches.newest
    found: BestResult = searches.entries[1].finds[0]
    assert (found.best, found.provenance, found.coverage) == (1.5, "predicted", pytest.approx(2 / 6))
    assert found.spark.line and searches.entries[1].finds[1].spark.line == ""
    assert (pulse.workers, pulse.busy) == (0, 0)


async def test_what_is_older_is_behind_an_address(service: Service, filled: Filled, hostile: Hostile) -> None:
    _, searches = await load_overview_parts(service.coordinator, hostile.search.id)
    assert [entry.search.id for entry in searches.entries] == [filled.search.id]
    assert not searches.newest
