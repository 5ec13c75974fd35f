import httpx
import pytest

from service.dashboard.shapes import load_winners
from tests.service import records
from tests.service.dashboard.conftest import Filled, Service
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_each_shape_has_its_winner(service: Service, filled: Filled) -> None:
    found = await load_winners(service.coordinator.store, filled.search, records.DEVICE)
    assert [winner.shape for winner in found.winners] == ["N=1024", "N=4096"]
    assert [winner.weight for winner in found.winners] == [1.0, 3.0]
    assert found.best is not None and found.best.candidate == filled.best
    assert found.gain == pytest.approx(1.0) and found.looked_at == 2


async def test_without_times_nothing_is_claimed(pages: httpx.AsyncClient, filled: Filled) -> None:
    path = f"/searches/{filled.search.id}/shapes"
    assert "A dispatcher that chooses the winner at each shape gains" in read(await pages.get(path)).text
    part = await pages.get(f"/searches/{filled.search.id}/winners?device={records.DEVICE}")
    assert part.status_code == 200 and "<p>A dispatcher" in part.text and "<html" not in part.text
    assert "No elite has times" in read(await pages.get(f"{path}?device=model:sm_80")).text
