import httpx
import pytest

from tests.service import records
from tests.service.dashboard.conftest import Filled, Service
from tests.service.dashboard.reading import read
from workers.protocol import MutationEntry, MutationReport

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_list_holds_the_catalogue_and_what_came_with_searches(
    pages: httpx.AsyncClient, filled: Filled
) -> None:
    page = read(await pages.get("/operators"))
    links = [link["href"] for link in page.all("a")]
    assert "/operators/rmsnorm" in links and "/operators/double" in links
    assert "not tested yet" in page.text


async def test_an_operator_shows_its_gate(pages: httpx.AsyncClient, service: Service, filled: Filled) -> None:
    entries = (
        MutationEntry(name="zeros", kind="trivial", verdict="killed", check="error_ratio"),
        MutationEntry(name="<b>off by one</b>", kind="mutant", verdict="survived"),
    )
    gate = MutationReport(verdict="failed", reason="a mutant survived", entries=entries, kill_rate=0.5, seconds=3.0)
    store = service.coordinator.store
    await store.operators.keep_mutation_report(records.OPERATOR.digest, gate.verdict, gate.model_dump_json())
    page = read(await pages.get("/operators/double"))
    for said in ("failed", "50%", "a mutant survived", "<b>off by one</b>", "return x * 2"):
        assert said in page.text
    assert "no operator called" in read(await pages.get("/operators/nothing"), 404).text
