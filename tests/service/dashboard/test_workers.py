import httpx
import pytest
from uuid6 import uuid7

from archive.records import NewRemoteWorker, RemoteWorkerState
from service.dashboard.workers import load_workers
from tests.service.dashboard.conftest import Filled, Service
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import read
from workers.protocol import PROTOCOL_VERSION
from workers.queue import LeaseClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_nobody_there_is_said_and_how_to_change_it(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get("/workers"))
    assert "No worker is connected" in page.text
    assert "reef worker --join http://127.0.0.1 --token TOKEN" in page.text


async def test_who_is_there_is_listed(pages: httpx.AsyncClient, service: Service) -> None:
    lessee = LeaseClient(service.redis_url, f"card {CORPUS[0]}", target="sm_90", device="model:sm_90")
    lessee.lease(block_ms=10)
    workers = await load_workers(service.coordinator)
    assert [worker.device for worker in workers.workers] == ["model:sm_90"]
    assert CORPUS[0] in read(await pages.get("/workers")).text


async def test_hosts_are_drained_trusted_and_shut_out(pages: httpx.AsyncClient, service: Service) -> None:
    store = service.coordinator.store
    new = NewRemoteWorker(
        str(uuid7()), f"rig {CORPUS[1]}", None, "sm_90", None, {}, 4, "", PROTOCOL_VERSION, "0" * 64, None
    )
    await store.remote_workers.add(new)
    path = f"/workers/{new.id}"
    assert CORPUS[1] in read(await pages.get("/workers")).text
    assert (await pages.post(f"{path}/trust", data={"trusted": "yes"})).status_code == 303
    assert (await store.remote_workers.get(new.id)).trusted
    assert (await pages.post(f"{path}/drain")).status_code == 303
    assert (await store.remote_workers.get(new.id)).state is RemoteWorkerState.DRAINING
    assert (await pages.post(f"{path}/revoke")).status_code == 303
    assert (await store.remote_workers.get(new.id)).state is RemoteWorkerState.REVOKED
