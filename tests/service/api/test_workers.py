"""Workers over HTTP: who is there, joining, and what may be done with those that joined."""

import asyncio
import hashlib

import httpx
import pytest
import redis

from archive.records import RemoteWorkerState
from service.api.worker_schemas import Worker
from workers.protocol import PROTOCOL_VERSION
from workers.queue import LeaseClient

pytestmark = pytest.mark.asyncio(loop_scope="module")
RIG = {
    "name": "rig-3",
    "protocol_versions": [1, PROTOCOL_VERSION],
    "target": "sm_90",
    "versions": {"triton": "3.7.1"},
    "cores": 8,
}
NOBODY = "0190a000-0000-7000-8000-000000000000"


async def test_workers_are_listed_by_id_and_by_pages(client: httpx.AsyncClient, service) -> None:
    assert (await client.get("/workers")).json() == {"items": [], "next": None}
    for worker, device in (("w-2", "model:sm_90"), ("w-1", None)):
        lessee = LeaseClient(service.redis_url, worker, target="sm_90", device=device)
        await asyncio.to_thread(lessee.announce, jail="user+net", versions={"triton": "3.7.1"})
    first = (await client.get("/workers", params={"limit": 1})).json()
    (tracer,) = first["items"]
    assert (tracer["id"], tracer["target"], tracer["device"], tracer["jail"]) == ("w-1", "sm_90", None, "user+net")
    assert tracer["trusted"] and tracer["state"] is tracer["done"] is tracer["name"] is None
    rest = (await client.get("/workers", params={"cursor": first["next"]})).json()
    assert [(worker["id"], worker["device"]) for worker in rest["items"]] == [("w-2", "model:sm_90")]
    assert rest["next"] is None


async def test_a_worker_joins_and_gets_a_user_of_its_own(client: httpx.AsyncClient, service) -> None:
    answer = await client.post("/workers/join", json=RIG)
    joined = answer.json()
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert joined["protocol_version"] == PROTOCOL_VERSION and joined["ca"] is None
    address = service.redis_url.rpartition("@")[2]
    assert joined["redis_url"] == f"redis://{address}"
    with redis.Redis.from_url(
        joined["redis_url"], username=f"reef-{joined['worker']}", password=joined["password"]
    ) as theirs:
        assert theirs.ping() and theirs.set(f"reef:worker:{joined['worker']}", "{}", px=1)
        with pytest.raises(redis.exceptions.NoPermissionError):
            theirs.keys("*")
    host = await service.coordinator.store.remote_workers.get(joined["worker"])
    assert host.password_digest == hashlib.sha256(joined["password"].encode()).hexdigest()
    shown = {one["id"]: one for one in (await client.get("/workers")).json()["items"]}[host.id]
    assert (shown["name"], shown["trusted"], shown["state"], shown["done"]) == ("rig-3", False, "active", 0)
    assert (shown["kinds"], shown["cores"], shown["versions"]) == (["trace"], 8, {"triton": "3.7.1"})
    assert "password" not in str(shown) and "digest" not in str(shown)
    assert (await client.get(f"/workers/{host.id}/status")).json() == {
        "worker": host.id,
        "state": "active",
        "reason": "",
    }


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"target": None}, 422, "target"),
        ({"target": "sm_1"}, 422, "target"),
        ({"device": "toaster"}, 422, "device"),
        ({"protocol_versions": []}, 422, "protocol_versions"),
        ({"protocol_versions": [99]}, 409, "protocol_versions"),
        ({"name": "two\nlines"}, 422, "name"),
        ({"versions": {"triton": "x" * 500}}, 422, "versions"),
        ({"cores": 0}, 422, "cores"),
        ({"trusted": True}, 422, "trusted"),
    ],
)
async def test_what_cannot_join_is_told_why(
    client: httpx.AsyncClient, changes: dict[str, object], status: int, field: str
) -> None:
    answer = await client.post("/workers/join", json={**RIG, **changes})
    assert answer.status_code == status, answer.text
    assert field in answer.text


async def test_an_admin_trusts_drains_and_revokes(client: httpx.AsyncClient, service) -> None:
    joined = (await client.post("/workers/join", json={**RIG, "device": "h200"})).json()
    at = f"/workers/{joined['worker']}"
    trusted = (await client.post(f"{at}/trust")).json()
    assert trusted["trusted"] and trusted["kinds"] == ["confirm", "measure", "trace"]
    assert not (await client.post(f"{at}/trust", json={"trusted": False})).json()["trusted"]
    assert (await client.post(f"{at}/drain")).json()["state"] == "draining"
    revoked = (await client.post(f"{at}/revoke", json={"reason": "sold"})).json()
    assert (revoked["state"], revoked["reason"]) == ("revoked", "sold")
    assert (await client.get(f"{at}/status")).json()["state"] == "revoked"
    with (
        redis.Redis.from_url(
            joined["redis_url"], username=f"reef-{joined['worker']}", password=joined["password"]
        ) as theirs,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        theirs.ping()
    for action in ("drain", "trust"):
        refused = await client.post(f"{at}/{action}")
        assert (refused.status_code, "revoked" in refused.json()["detail"]) == (409, True)
    assert joined["worker"] not in [one["id"] for one in (await client.get("/workers")).json()["items"]]
    history = [entry.event.state for entry in service.coordinator.events._history if hasattr(entry.event, "worker")]
    assert history[-5:] == ["joined", "trusted", "untrusted", "draining", "revoked"]


@pytest.mark.parametrize("action", ["drain", "trust", "revoke"])
async def test_nobody_can_be_told_nothing(client: httpx.AsyncClient, action: str) -> None:
    assert (await client.post(f"/workers/{NOBODY}/{action}")).status_code == 404
    assert (await client.post(f"/workers/w-1/{action}")).status_code == 404


async def test_a_revoked_token_takes_its_hosts_with_it(client: httpx.AsyncClient, service) -> None:
    token = (await client.post("/tokens", json={"name": "rig", "scopes": ["worker", "admin", "read"]})).json()
    shown = {"Authorization": f"Bearer {token['token']}"}
    joined = (await client.post("/workers/join", json=RIG, headers=shown)).json()
    assert (await service.coordinator.store.remote_workers.get(joined["worker"])).token == token["id"]
    await service.coordinator.store.tokens.revoke(token["id"])
    async with asyncio.timeout(15):
        while (
            await service.coordinator.store.remote_workers.get(joined["worker"])
        ).state is not RemoteWorkerState.REVOKED:
            await asyncio.sleep(0.1)


async def test_an_away_host_is_shown_as_the_archive_knows_it(client: httpx.AsyncClient, service) -> None:
    joined = (await client.post("/workers/join", json=RIG)).json()
    host = await service.coordinator.store.remote_workers.get(joined["worker"])
    shown = Worker.of(None, host)
    assert (shown.id, shown.busy, shown.seen, shown.state) == (host.id, None, host.seen_at, host.state.value)
