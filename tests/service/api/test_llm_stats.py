"""What came of asking models, over HTTP."""

import httpx
import pytest
from uuid6 import uuid7

from archive.records import LlmReply, NewCharge, SpendingLimits
from tests.archive.samples import new_exchange
from tests.service.api.conftest import Filled, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_figures_come_by_backend_and_strategy(
    service: Service, client: httpx.AsyncClient, filled: Filled
) -> None:
    store, search = service.coordinator.store, filled.search.id
    exchange = await store.exchanges.open(new_exchange(search, 90, backend="manual", strategy="explore", cell=7))
    charge = NewCharge(str(uuid7()), exchange.id, search, "manual", "explore", 10, None)
    await store.spending.reserve(charge, SpendingLimits(), SpendingLimits())
    await store.exchanges.answer(exchange.id, LlmReply("text", "person", 3, 4, None), charge=charge.id)
    await store.exchanges.conclude(exchange.id, "unusable", "no_code: it has none")
    body = (await client.get(f"/searches/{search}/models")).json()
    assert (body["search"], body["unit"]) == (search, "tokens")
    (row,) = body["rows"]
    assert (row["backend"], row["kind"], row["strategy"], row["usd"]) == ("manual", "manual", "explore", None)
    assert (row["calls"], row["tokens"], row["unusable"], row["aimed"], row["hits"]) == (1, 7, 1, 1, 0)
    assert row["hit_rate"] == 0.0 and row["repair_rate"] is None and row["gain_per_cost"] == 0.0


async def test_an_unknown_search_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"/searches/{uuid7()}/models")).status_code == 404
