"""Workers over HTTP, as the queue knows them."""

import asyncio

import httpx
import pytest

from workers.queue import Lessee

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_workers_are_listed_by_id_and_by_pages(client: httpx.AsyncClient, service) -> None:
    assert (await client.get("/workers")).json() == {"items": [], "next": None}
    for worker, device in (("w-2", "model:sm_90"), ("w-1", None)):
        lessee = Lessee(service.redis_url, worker, target="sm_90", device=device)
        await asyncio.to_thread(lessee.announce, jail="user+net", versions={"triton": "3.7.1"})
    first = (await client.get("/workers", params={"limit": 1})).json()
    (tracer,) = first["items"]
    assert (tracer["id"], tracer["target"], tracer["device"], tracer["jail"]) == ("w-1", "sm_90", None, "user+net")
    rest = (await client.get("/workers", params={"cursor": first["next"]})).json()
    assert [(worker["id"], worker["device"]) for worker in rest["items"]] == [("w-2", "model:sm_90")]
    assert rest["next"] is None
