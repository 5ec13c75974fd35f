"""A coordinator checks what it is asked for, keeps it, and goes on with it after a restart."""

import asyncio
import importlib.metadata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from archive.descriptors import DEFAULT_AXES
from archive.records import SearchState
from service.coordinator import Coordinator
from service.embedded import EmbeddedServer
from service.errors import Conflict, InvalidInput, NotFound
from service.requests import SearchChange, SearchRequest
from service.scheduler.changes import change
from service.scheduler.leases import RENEW_S
from service.settings import Settings
from tests.archive.samples import new_candidate
from tests.service.listing import list_cards
from workers.queue import LeaseClient


@pytest.fixture
def settings(tmp_path: Path, redis_server: EmbeddedServer, redis_url: str) -> Settings:
    return Settings(data_dir=tmp_path, redis_url=redis_url, local_workers=0)


@pytest.fixture
async def coordinator(settings: Settings) -> AsyncIterator[Coordinator]:
    coordinator = await Coordinator.open(settings)
    yield coordinator
    await coordinator.close()


async def queued(coordinator: Coordinator) -> int:
    """Jobs in the queue, once there are any: a search is taken up by the next tick."""
    for _ in range(100):
        jobs = sum((await coordinator.queue_depth()).values())
        if jobs:
            return jobs
        await asyncio.sleep(0.05)
    return 0


SEEDLESS = {
    "name": "double",
    "entry": "double",
    "reference": "def double(x):\n    return x * 2\n",
    "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
    "outputs": [{"name": "y", "dtype": "float32"}],
    "shapes": [{"N": 1024}],
    "ranges": {"N": [1, 4096]},
}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"operator": "rmsnrom"}, "operator"),
        ({"operator": SEEDLESS}, "operator.seeds"),
        ({"devices": ("model:sm_1",)}, "devices"),
        ({"devices": ("toaster",)}, "devices"),
        ({"devices": ("h200", "recorded:h200")}, "devices"),
        ({"devices": ("mi300x",)}, "devices"),
        ({"devices": ("h200", "model:sm_80")}, "devices"),
        ({"devices": ("model:sm_90", "model:sm_80")}, "devices"),
        ({"emitters": ("tune", "magic")}, "emitters"),
        ({"axes": ("colour",)}, "axes"),
        ({"emitters": ("tune", "llm")}, "llm"),
        ({"emitters": ("tune",), "llm": {"backends": ("manual",)}}, "emitters"),
        ({"emitters": ("llm",), "llm": {"backends": ("manul",)}}, "llm.backends"),
    ],
)
async def test_what_cannot_be_right_names_its_field(
    coordinator: Coordinator, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await coordinator.submit(SearchRequest.model_validate({"operator": "rmsnorm", **wrong}))
    assert caught.value.field == field
    assert await coordinator.store.searches.list() == []


async def test_a_search_is_stored_with_its_shapes_and_its_reference_is_asked_for(coordinator: Coordinator) -> None:
    search = await coordinator.submit(SearchRequest(operator="softmax", evaluations=5))
    assert (search.state, search.operator_name, search.evaluations) == (SearchState.PREPARING, "softmax", 5)
    assert tuple(axis.descriptor for axis in search.axes) == DEFAULT_AXES
    assert {shape["role"] for shape in search.shapes} == {"benchmark", "boundary", "held_out"}
    assert await queued(coordinator)


async def test_a_search_on_a_card_says_that_nobody_serves_it(
    coordinator: Coordinator, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.fleet.capabilities.LOOK_AGAIN_S", 0.0)
    search = await coordinator.submit(SearchRequest(operator="softmax", devices=("h200", "model:sm_90")))
    assert await coordinator.capabilities.lacking(search) == ["h200", "model:sm_90"]
    assert await queued(coordinator)
    judges = [f"a worker that judges on {device}" for device in ("h200", "model:sm_90")]
    assert await coordinator.describe_missing(search) == [*judges, "a worker that traces for sm_90"]
    worker = LeaseClient(redis_url, "w", device="h200")
    worker.announce()
    assert await coordinator.capabilities.lacking(search) == ["model:sm_90"]
    assert await coordinator.describe_missing(search) == [judges[1], "a worker that traces for sm_90"]
    worker.depart()
    assert await coordinator.capabilities.lacking(search) == ["h200", "model:sm_90"]


async def test_cuda_is_the_card_of_the_workers(
    coordinator: Coordinator, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.fleet.capabilities.LOOK_AGAIN_S", 0.0)
    request = SearchRequest(operator="softmax", devices=("cuda", "h200"))
    with pytest.raises(InvalidInput, match="cuda: no worker of this service has a card"):
        await coordinator.submit(request)
    worker = LeaseClient(redis_url, "w", device="h200")
    worker.announce()
    assert (await coordinator.submit(request)).devices == ("h200",)
    worker.depart()


async def test_a_service_that_nobody_can_join_refuses_a_card_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path, local_workers=1)
    coordinator = await Coordinator.open(settings)
    try:
        with pytest.raises(InvalidInput, match="h100: no worker has this card; no NVIDIA card on this machine"):
            list_cards(tmp_path, monkeypatch)
            await coordinator.submit(SearchRequest(operator="softmax", devices=("h100",)))
        list_cards(tmp_path, monkeypatch, "NVIDIA A10")
        with pytest.raises(InvalidInput, match="h100: no worker has this card; here: cuda:0 is a10"):
            await coordinator.submit(SearchRequest(operator="softmax", devices=("h100",)))
        assert await coordinator.store.searches.list() == []
    finally:
        await coordinator.close()


async def test_a_search_that_was_paused_before_its_seeds_were_judged_goes_on_with_them(
    coordinator: Coordinator,
) -> None:
    search = await coordinator.submit(SearchRequest(operator="softmax"))
    await coordinator.pause(search.id)
    await coordinator.store.searches.set_graphs(search.id, [{}])
    assert (await coordinator.resume(search.id)).state is SearchState.PREPARING


async def test_a_search_moves_only_where_it_may(coordinator: Coordinator) -> None:
    search = await coordinator.submit(SearchRequest(operator="softmax"))
    assert (await coordinator.pause(search.id)).state is SearchState.PAUSED
    with pytest.raises(Conflict, match="paused"):
        await coordinator.pause(search.id)
    assert (await coordinator.resume(search.id)).state is SearchState.PREPARING
    assert (await coordinator.stop(search.id)).state is SearchState.STOPPED
    assert sum((await coordinator.queue_depth()).values()) == 0
    with pytest.raises(Conflict, match="stopped"):
        await coordinator.resume(search.id)
    with pytest.raises(NotFound):
        await coordinator.stop("nothing")


async def test_a_restart_goes_on_with_what_was_open(settings: Settings, coordinator: Coordinator) -> None:
    search = await coordinator.submit(SearchRequest(operator="softmax"))
    again = await Coordinator.open(settings)
    try:
        assert (await again.store.searches.get(search.id)).state is SearchState.PREPARING
        assert await queued(again)
    finally:
        await again.close()


async def test_a_command_runs_the_searches_that_it_names_only(settings: Settings, coordinator: Coordinator) -> None:
    left = await coordinator.submit(SearchRequest(operator="softmax"))
    await coordinator.close()
    command = await Coordinator.open(settings, named_only=True)
    try:
        mine = await command.submit(SearchRequest(operator="rmsnorm"))
        assert await queued(command)
        await asyncio.sleep(2 * RENEW_S)
        held = {id: await command.store.search_leases.get(id) for id in (left.id, mine.id)}
        assert [lease is not None and lease.holder != "" for lease in held.values()] == [False, True]
        assert (await command.resume(left.id)).state is SearchState.PREPARING
        lease = await command.store.search_leases.get(left.id)
        assert lease is not None and lease.holder != ""
    finally:
        await command.close()


async def test_a_done_search_goes_on_if_its_limits_leave_room(coordinator: Coordinator) -> None:
    search = await coordinator.submit(SearchRequest(operator="softmax", evaluations=1))
    await coordinator.pause(search.id)
    store, events = coordinator.store, coordinator.events
    await store.candidates.add(new_candidate(search.id))
    done = await store.searches.set_state(search.id, SearchState.DONE)
    with pytest.raises(Conflict, match="has used its 1 evaluations"):
        await coordinator.resume(search.id)
    done = await change(store, events, done, SearchChange.model_validate({"evaluations": 3, "stop": {"seconds": 1e-9}}))
    await store.searches.count_time(
        [search.id], 1_000_000
    )  # Without a verdict a search gets ten minutes for the first.
    assert done.state is SearchState.DONE
    with pytest.raises(Conflict, match="stop rule"):
        await coordinator.resume(search.id)
    await change(store, events, done, SearchChange.model_validate({"stop": {}}))
    assert (await coordinator.resume(search.id)).state is SearchState.PREPARING
    lease = await store.search_leases.get(search.id)
    assert lease is not None and lease.holder != ""


async def test_a_service_that_nobody_can_join_refuses_a_compiler_that_is_not_here(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.7.1")
    monkeypatch.setattr("service.fleet.capabilities.LOOK_AGAIN_S", 0.0)
    coordinator = await Coordinator.open(Settings(data_dir=tmp_path, local_workers=0))
    coordinator.settings = Settings(data_dir=tmp_path, local_workers=1)
    try:
        assert (await coordinator.submit(SearchRequest(operator="softmax", compiler="3.7"))).compiler == "3.7"
        with pytest.raises(InvalidInput, match=r"no worker has Triton 3\.9; .* have 3\.7") as caught:
            await coordinator.submit(SearchRequest(operator="softmax", compiler="3.9"))
        assert caught.value.field == "compiler"
        with pytest.raises(InvalidInput, match="a recording: nothing is compiled"):
            await coordinator.submit(SearchRequest(operator="softmax", devices=("recorded:h200",), compiler="3.7"))
    finally:
        await coordinator.close()


async def test_a_compiler_that_no_worker_has_yet_is_waited_for(
    coordinator: Coordinator, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.fleet.capabilities.LOOK_AGAIN_S", 0.0)
    search = await coordinator.submit(SearchRequest(operator="softmax", compiler="3.9"))
    worker = LeaseClient(redis_url, "w", target="sm_90", device="model:sm_90")
    worker.announce(versions={"triton": "3.8.0"})
    assert await queued(coordinator)
    assert await coordinator.describe_missing(search) == ["a worker that traces for sm_90 with Triton 3.9"]
    worker.announce(versions={"triton": "3.9.0"})
    assert await coordinator.describe_missing(search) == []
    worker.depart()
