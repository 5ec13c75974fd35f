"""What one coordinator carries on this machine, with whatever makes the load beside it.

`ingest` is how fast reports are applied that lie ready, nothing proposed meanwhile; `collect` the same without applying
them. `steady` is a served coordinator with a crowd of simulated workers, readers of its API, and its memory over time;
`first job` is the time from a submitted search to its first job in a worker's hands.

    python -m benchmarks.load
"""

import argparse
import asyncio
import dataclasses
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
from uuid6 import uuid7

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from archive.records import NewCandidate, NewSearch, SearchState
from archive.store import Store, migrate
from benchmarks.hosts import Network, Postgres, Process, RedisServer, free_port
from benchmarks.queue import job
from benchmarks.record import write
from benchmarks.stand_in import DEVICE, SEED, TARGET, answer, spec
from service.events import Events
from service.judging.jobs import trace_key
from service.operators.catalogue import parse_operator
from service.operators.shapes import all_shapes
from service.operators.sources import digest
from service.searching.evolution import Evolution
from service.searching.flow import Limits
from workers.protocol import Operator
from workers.queue import Dispatcher, Lease, Lessee

WORKERS = 1_000
READERS = 200
SEARCHES = 40
STEADY_S = 60.0
SAMPLE_S = 5.0
FAILED = -1.0


@dataclasses.dataclass(frozen=True)
class Wide:
    """A search with many candidates."""

    search: str
    operator: Operator
    shapes: tuple[dict[str, Any], ...]


async def prepare(store: Store, name: str, budget: int) -> Wide:
    """Store a search whose reference is known, paused so that nothing but what we give it is proposed."""
    operator = parse_operator(spec(name))
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    shapes = tuple(shape.model_dump(mode="json") for shape in all_shapes(operator, 1))
    id, axes = str(uuid7()), tuple(DESCRIPTORS[name].axis for name in DEFAULT_AXES)
    new = NewSearch(id, operator.digest, name, (DEVICE,), ("tune",), axes, 1, budget, 0, shapes)
    await store.searches.create(new)
    await store.searches.set_graphs(id, [{"shape": shape, **_EMPTY_GRAPH} for shape in shapes])
    await store.searches.set_state(id, SearchState.PAUSED)
    return Wide(id, operator, shapes)


async def propose(store: Store, wide: Wide, ordinal: int) -> None:
    """Store a candidate; number 0 is the seed."""
    source = SEED if ordinal == 0 else SEED.replace("double_kernel", f"double_kernel_{ordinal}")
    key = trace_key(digest(source), wide.operator.digest, wide.shapes, TARGET)
    emitter = "seed" if ordinal == 0 else "tune"
    await store.candidates.add(NewCandidate(str(uuid7()), wide.search, ordinal, emitter, source, digest(source), key))


_EMPTY_GRAPH: dict[str, Any] = {
    "nodes": [],
    "outputs": [{"input": 0}],
    "output_shapes": [[1]],
    "output_dtypes": ["float32"],
}


def answer_all(url: str, workers: int) -> int:
    """Answer every job that is queued, as so many workers in turn; returns how many there were."""
    crew = [Lessee(url, f"w{number}", target=TARGET, device=DEVICE) for number in range(workers)]
    done = 0
    while (lease := crew[done % workers].lease(block_ms=0)) is not None:
        worker = crew[done % workers]
        worker.report(lease, answer(lease.job).model_copy(update={"worker": worker.worker}))
        done += 1
    return done


async def ingest(database: str, redis_url: str, candidates: int, kind: str) -> list[dict[str, Any]]:
    """Rows: reports applied a second, trace and measure reports apart."""
    await migrate(database)
    store, dispatcher = await Store.open(database), Dispatcher(redis_url)
    evolution = Evolution(store, dispatcher, Events(), limits=Limits(1, 1, 1))
    wide = await prepare(store, "ingested", candidates)
    await propose(store, wide, 0)
    rows = []
    for stage in ("seed trace", "seed measure", "trace", "measure"):
        if stage == "trace":
            for ordinal in range(1, candidates):
                await propose(store, wide, ordinal)
        if stage.endswith("trace"):
            await evolution.sweep(await store.searches.get(wide.search))
        waiting = await asyncio.to_thread(answer_all, redis_url, 50)
        began, cpu = time.perf_counter(), time.process_time()
        while await dispatcher.vitals.reports_waiting():
            await evolution.tick()
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        row = {"what": "ingest", "database": kind, "kind": stage, "reports": waiting}
        rows.append({**row, "per_s": round(waiting / took_s, 1), "cpu_ms_a_report": round(1e3 * cpu_s / waiting, 2)})
    await store.searches.set_state(wide.search, SearchState.STOPPED)
    await dispatcher.close()
    await store.close()
    print(*rows[2:], sep="\n", flush=True)
    return rows[2:]


async def collected(redis_url: str, reports: int) -> dict[str, Any]:
    """Row: reports taken from the queue and acknowledged a second, applied by nobody."""
    dispatcher = Dispatcher(redis_url)
    for index in range(reports):
        await dispatcher.submit(job(index, 4, 4_096))
    waiting = await asyncio.to_thread(answer_all, redis_url, 50)
    began, taken = time.perf_counter(), 0
    while deliveries := await dispatcher.collect(count=64, block_ms=0):
        await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
        taken += len(deliveries)
    row = {"what": "collect", "reports": waiting, "per_s": round(taken / (time.perf_counter() - began), 1)}
    await dispatcher.close()
    print(row, flush=True)
    return row


def crowd(url: str, workers: int, job_s: float) -> None:
    """Be that many workers, each a thread that waits for jobs as a real one does, until killed."""
    threading.stack_size(256 * 1024)

    def work(number: int) -> None:
        lessee = Lessee(url, f"w{number}", target=TARGET, device=DEVICE, lease_ms=60_000)
        rng = random.Random(number)
        while True:
            lease = lessee.lease(block_ms=5_000)
            if lease is not None:
                time.sleep(rng.expovariate(1 / job_s))
                lessee.report(lease, answer(lease.job).model_copy(update={"worker": lessee.worker}))

    for number in range(workers):
        threading.Thread(target=work, args=(number,), daemon=True).start()
        time.sleep(0.005)
    threading.Event().wait()


async def read(client: httpx.AsyncClient, paths: Sequence[str], until: float, every_s: float) -> list[float]:
    """Be one reader; milliseconds of each request, `FAILED` for one that was not answered well."""
    rng, spent_ms = random.Random(), []
    await asyncio.sleep(rng.uniform(0, every_s))
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            (await client.get(rng.choice(paths))).raise_for_status()
            spent_ms.append(1e3 * (time.perf_counter() - began))
        except httpx.HTTPError:
            spent_ms.append(FAILED)
        await asyncio.sleep(max(0.0, every_s - (time.perf_counter() - began)))
    return spent_ms


async def readers(url: str, searches: Sequence[str], every_s: float, seconds: float, what: str) -> dict[str, Any]:
    """Row: latency of the API under `READERS` readers, each of which asks once in `every_s` seconds."""
    pages = ("", "/archive", "/progress", "/candidates")
    paths = [f"/api/v1/searches/{id}{page}" for id in searches for page in pages]
    limits = httpx.Limits(max_connections=READERS, keepalive_expiry=3.0)  # The server closes idle ones after 5 s.
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
        until = time.monotonic() + seconds
        spent = await asyncio.gather(*(read(client, paths, until, every_s) for _ in range(READERS)))
    everything = [each for one in spent for each in one]
    spent_ms = sorted(each for each in everything if each != FAILED)
    return {
        "what": what,
        "readers": READERS,
        "every_s": every_s,
        "requests_per_s": round(len(spent_ms) / seconds, 1),
        "failed": len(everything) - len(spent_ms),
        "p50_ms": round(statistics.median(spent_ms), 1),
        "p99_ms": round(spent_ms[int(0.99 * len(spent_ms))], 1),
    }


def _first(lessee: Lessee) -> Lease:
    while True:
        lease = lessee.lease(5_000)
        if lease is not None:
            return lease


async def first_jobs(url: str, redis_url: str, count: int) -> dict[str, Any]:
    """Row: milliseconds from asking for a search to a waiting worker's having its first job."""
    lessee = Lessee(redis_url, "first", target=TARGET)
    waits_ms = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for number in range(count):
            waiting = asyncio.create_task(asyncio.to_thread(_first, lessee))
            await asyncio.sleep(0.1)
            began = time.perf_counter()
            body = {"operator": spec(f"first{number}"), "devices": [DEVICE], "budget": 10}
            created = await client.post("/api/v1/searches", json=body)
            created.raise_for_status()
            lease = await waiting
            waits_ms.append(1e3 * (time.perf_counter() - began))
            assert lease.job.search == created.json()["id"]
            (await client.post(f"/api/v1/searches/{lease.job.search}/stop")).raise_for_status()
    return {
        "what": "first job",
        "searches": count,
        "p50_ms": round(statistics.median(waits_ms), 1),
        "most_ms": round(max(waits_ms), 1),
    }


async def steady(folder: Path, database: str, redis_url: str, seconds: float) -> list[dict[str, Any]]:
    """Rows of a served coordinator under load."""
    port = free_port("127.0.0.1")
    address = f"http://127.0.0.1:{port}"
    environment = {
        "REEF_DATABASE_URL": database,
        "REEF_REDIS_URL": redis_url,
        "REEF_DATA_DIR": str(folder / "served"),
        "REEF_LOCAL_WORKERS": "0",
        "REEF_IN_FLIGHT_PER_SEARCH": str(WORKERS // SEARCHES),
        "REEF_IN_FLIGHT_PER_OWNER": str(WORKERS),
        "REEF_IN_FLIGHT": str(WORKERS),
    }
    reef = [sys.executable, "-c", "from service.cli import main; main()", "serve", "--port", str(port)]
    served = Process(reef, folder / "served.log", environment)
    workers = Process([sys.executable, "-m", "benchmarks.load", "--crowd", redis_url], folder / "crowd.log")
    served.start()
    try:
        await _answers(address)
        rows = [await first_jobs(address, redis_url, 10)]
        searches = await _submit(address)
        rows.append(await readers(address, searches, 1.0, 15.0, "readers, no jobs"))
        print(*rows, sep="\n", flush=True)
        workers.start()
        await asyncio.sleep(10.0)
        store = await Store.open(database)
        before, began = await _judged(store, searches), time.monotonic()
        memory = asyncio.create_task(_memory(served.pid, seconds))
        rows.append(await readers(address, searches, 5.0, seconds, "readers, jobs running"))
        judged = await _judged(store, searches) - before
        per_s = 2 * judged / (time.monotonic() - began)
        await store.close()
        row = {"what": "steady", "workers": WORKERS, "searches": SEARCHES, "reports_per_s": round(per_s, 1)}
        rows.append({**row, "memory_mib": await memory, "every_s": SAMPLE_S})
        print(*rows[-2:], sep="\n", flush=True)
        return rows
    finally:
        workers.kill()
        served.kill()


async def _answers(address: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(600):
            try:
                if (await client.get(f"{address}/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise SystemExit("the coordinator does not answer")


async def _submit(address: str) -> list[str]:
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        ids = []
        for number in range(SEARCHES):
            body = {"operator": spec(f"loaded{number}"), "devices": [DEVICE], "budget": 100_000}
            ids.append((await client.post("/api/v1/searches", json=body)).raise_for_status().json()["id"])
    return ids


async def _judged(store: Store, searches: Sequence[str]) -> int:
    return sum([(await store.candidates.count(search)).judged for search in searches])


async def _memory(pid: int, seconds: float) -> list[float]:
    process, sizes = psutil.Process(pid), []
    for _ in range(int(seconds / SAMPLE_S)):
        sizes.append(round(process.memory_info().rss / 2**20, 1))
        await asyncio.sleep(SAMPLE_S)
    return sizes


async def run(candidates: int, seconds: float) -> list[dict[str, Any]]:
    """Everything; rows."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="reef-load-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        network = Network([])
        servers: list[Process] = []
        try:
            postgres = Postgres(folder / "postgres", "127.0.0.1")
            servers.append(postgres)
            postgres.start()
            for kind, database in (("SQLite", f"sqlite+aiosqlite:///{folder}/reef.db"), ("PostgreSQL", postgres.url)):
                redis = RedisServer(folder / f"redis-{kind}", "127.0.0.1")
                servers.append(redis)
                redis.start()
                rows += await ingest(database, redis.url, candidates, kind)
            redis = RedisServer(folder / "redis-collected", "127.0.0.1")
            servers.append(redis)
            redis.start()
            rows.append(await collected(redis.url, candidates))
            redis = RedisServer(folder / "redis-served", "127.0.0.1")
            servers.append(redis)
            redis.start()
            rows += await steady(folder, postgres.url, redis.url, seconds)
        finally:
            for server in servers:
                server.kill()
            network.close()
    return rows


def main() -> None:
    """Run and write `results/load.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--candidates", type=int, default=1_000, help="reports of each kind that are ingested")
    options.add_argument("--seconds", type=float, default=STEADY_S)
    options.add_argument("--crowd", help="be the workers of the queue at this address")
    options.add_argument("--dry", action="store_true", help="write no file")
    chosen = options.parse_args()
    if chosen.crowd:
        crowd(chosen.crowd, WORKERS, 0.5)
    load = os.getloadavg()[0]
    rows = asyncio.run(run(chosen.candidates, chosen.seconds))
    if not chosen.dry:
        print(write("load", rows, load_average_before=round(load, 1)))


if __name__ == "__main__":
    main()
