import httpx
import pytest

from service.dashboard.maps import View
from service.dashboard.shapes import load_shapes
from tests.service.dashboard.conftest import Filled, Service
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_each_shape_has_its_winner(service: Service, filled: Filled) -> None:
    page = await load_shapes(service.coordinator.store, filled.search, View.of(filled.search, {}))
    assert [winner.shape for winner in page.winners] == ["N=1024", "N=4096"]
    assert [winner.weight for winner in page.winners] == [1.0, 3.0]
    assert page.best is not None and page.best.candidate == filled.best
    assert page.gain == pytest.approx(1.0) and page.looked_at == 2


async def test_without_times_nothing_is_claimed(pages: httpx.AsyncClient, filled: Filled) -> None:
    path = f"/searches/{filled.search.id}/shapes"
    assert "Picking the winner at each shape would gain" in read(await pages.get(path)).text
    assert "No elite has times" in read(await pages.get(f"{path}?device=model:sm_80")).text
