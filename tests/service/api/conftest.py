"""A running service over SQLite and an embedded queue, without workers, and a search with something in it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from uuid6 import uuid7

from archive.records import (
    AxisRecord,
    NewCandidate,
    NewReport,
    NewSearch,
    NewVariant,
    Offer,
    SearchRecord,
    SearchState,
    TraceOutcome,
)
from archive.store import Store
from service.app import create_app
from service.coordinator import Coordinator
from service.embedded import EmbeddedServer
from service.settings import Settings
from tests.service import records
from workers.protocol import PROTOCOL_VERSION


@dataclass(frozen=True)
class Service:
    """The app with an HTTP client for it, and the coordinator inside."""

    app: FastAPI
    client: httpx.AsyncClient
    coordinator: Coordinator
    redis_url: str


@dataclass(frozen=True)
class Filled:
    """A search that has ended, with ids of its candidates: two elites, one that failed, one that waits."""

    search: SearchRecord
    first: str
    best: str
    failed: str
    queued: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    folder = tmp_path_factory.mktemp("reef")
    async with EmbeddedServer(folder / "redis") as server:
        app = create_app(Settings(data_dir=folder, redis_url=server.url, local_workers=0))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client,
        ):
            yield Service(app, client, app.state.coordinator, server.url)


@pytest_asyncio.fixture(loop_scope="module")
async def client(service: Service) -> httpx.AsyncClient:
    return service.client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(service: Service) -> Filled:
    return await fill(service.coordinator.store)


async def fill(store: Store) -> Filled:
    """Keep a search that has ended, with its candidates."""
    operator = records.OPERATOR
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    search = await store.searches.create(
        NewSearch(
            id=str(uuid7()),
            operator=operator.digest,
            operator_name=operator.name,
            devices=(records.DEVICE, "model:sm_80"),
            emitters=("tune",),
            axes=(AxisRecord("num_warps", 6),),
            axes_version=1,
            evaluations=4,
            seed=7,
            shapes=tuple(shape.model_dump(mode="json") for shape in records.SHAPES),
        )
    )
    ids = [str(uuid7()) for _ in range(4)]
    for ordinal, id in enumerate(ids):
        await store.candidates.add(
            NewCandidate(
                id=id,
                search=search.id,
                ordinal=ordinal,
                emitter="seed" if ordinal == 0 else "tune",
                source=f"{records.SEED}# {ordinal}\n",
                digest=f"{ordinal:064}",
                trace_key=f"{ordinal:064}",
                parents=(ids[0],) if ordinal else (),
                note="num_warps 4 -> 8" if ordinal else "",
            )
        )
    for cell, (id, objective) in enumerate(((ids[0], 1.0), (ids[1], 1.5))):
        await place(store, search, id, cell=cell, objective=objective)
    await store.candidates.judge(ids[2], "compile_error", "no such name", 3, None)
    ended = await store.searches.set_state(search.id, SearchState.DONE)
    return Filled(ended, *ids)


async def place(store: Store, search: SearchRecord, candidate: str, *, cell: int, objective: float) -> None:
    """Have a candidate traced, judged correct and placed."""
    bundle = records.bundle(1 + cell)
    readings = tuple(records.readings(2**cell).model_dump(mode="json") for _ in records.SHAPES)
    variant = NewVariant(
        index=0,
        configuration={"BLOCK": 128},
        bundle=bundle.identity,
        document=bundle.model_dump_json(),
        readings=readings,
    )
    await store.candidates.save_trace(candidate, TraceOutcome(None, "", None, {"compile": 0.25}, (variant,)))
    report = records.report(
        {"N=1024": 10.0, "N=4096": 20.0},
        job=f"{candidate}:0",
        search=search.id,
        candidate=candidate,
        bundle=bundle.identity,
        protocol_version=PROTOCOL_VERSION if cell else 1,
    )
    await store.reports.save(
        NewReport(
            job=report.job,
            search=search.id,
            candidate=candidate,
            variant=0,
            bundle=bundle.identity,
            operator=search.operator,
            device=records.DEVICE,
            kind="measure",
            protocol_version=report.protocol_version,
            outcome="correct",
            reason="",
            provenance="predicted",
            document=report.model_dump_json(),
        )
    )
    await store.candidates.judge(candidate, "correct", "", None, objective, {records.DEVICE: objective})
    await store.elites.offer(
        Offer(
            search=search.id,
            device=records.DEVICE,
            axes_version=1,
            cell=cell,
            coordinates={"num_warps": {"value": 2.0**cell, "bin": cell}},
            candidate=candidate,
            variant=0,
            bundle=bundle.identity,
            job=report.job,
            emitter="tune" if cell else "seed",
            objective=objective,
            low=objective,
            mid=objective,
            high=objective,
        )
    )
