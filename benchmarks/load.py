"""Load that one coordinator carries on this machine, with the load generators beside it.

`ingest` is how fast reports are applied that lie ready, nothing proposed meanwhile; `collect` the same without applying
them. `steady` is a served coordinator with a crowd of simulated workers, readers of its API, and its memory over time;
`page` is what each page costs the server in processor time, which says the same on a busy machine; `first job` is the
time from a submitted search to its first job in a worker's hands.

    python -m benchmarks.load
"""

import argparse
import asyncio
import dataclasses
import itertools
import logging
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import structlog
from uuid6 import uuid7

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from archive.records import NewCandidate, NewSearch, SearchState
from archive.store import Store, migrate
from benchmarks.cluster import PostgresServer, RedisServer, RestartableProcess, free_port
from benchmarks.record import write
from benchmarks.stub_worker import DEVICE, SEED, TARGET, answer, spec
from service.evaluation.jobs import trace_key
from service.events import EventBus
from service.metrics import METRICS
from service.operators.catalogue import parse_operator
from service.operators.shapes import all_shapes
from service.operators.sources import digest
from service.scheduler.backpressure import CandidateLimits
from service.scheduler.evolution import Evolution
from workers.protocol import Operator, Shape, TraceJob
from workers.queue import Dispatcher, Lease, LeaseClient

OPERATOR = Operator.model_validate(
    {
        "name": "double",
        "entry": "double",
        "reference": "def double(x):\n    return x * 2\n",
        "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
        "outputs": [{"name": "y", "dtype": "float32"}],
        "shapes": [{"dims": {"N": 64}}],
        "ranges": {"N": [1, 64]},
    }
)
PARTS = ("ingest", "collect", "pages", "steady")
KINDS = ("PostgreSQL", "SQLite")
WORKERS = 1_000
READERS = 200
SEARCHES = 40
STEADY_S = 60.0
PAGE_CANDIDATES = 120
"""Number of candidates of the search whose pages are requested one by one: a few dozen cells are held then."""
PAGE_REQUESTS, WARM_UP = 100, 10
SAMPLE_S = 5.0
FAILED = -1.0


@dataclasses.dataclass(frozen=True)
class WideSearch:
    """A search with many candidates."""

    search: str
    operator: Operator
    shapes: tuple[dict[str, Any], ...]


def job(index: int, searches: int, payload_bytes: int) -> TraceJob:
    """A trace job with a source of a given size."""
    shape = Shape(dims={"N": 64})
    source = "#" * payload_bytes
    search = f"search-{index % searches}"
    return TraceJob(id=f"job-{index}", search=search, source=source, operator=OPERATOR, shapes=(shape,), target="sm_90")


async def prepare(store: Store, name: str, budget: int) -> WideSearch:
    """Store a search whose reference is known, paused so that nothing but what we give it is proposed."""
    operator = parse_operator(spec(name))
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    shapes = tuple(shape.model_dump(mode="json") for shape in all_shapes(operator, 1))
    id, axes = str(uuid7()), tuple(DESCRIPTORS[name].axis for name in DEFAULT_AXES)
    new = NewSearch(id, operator.digest, name, (DEVICE,), ("tune",), axes, 1, budget, 0, shapes)
    await store.searches.create(new)
    await store.searches.set_graphs(id, [{"shape": shape, **_EMPTY_GRAPH} for shape in shapes])
    await store.searches.set_state(id, SearchState.PAUSED)
    return WideSearch(id, operator, shapes)


async def propose(store: Store, wide: WideSearch, ordinal: int) -> None:
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
    crew = [LeaseClient(url, f"w{number}", target=TARGET, device=DEVICE) for number in range(workers)]
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
    evolution = Evolution(store, dispatcher, EventBus(), limits=CandidateLimits(1, 1, 1))
    wide = await prepare(store, "ingested", candidates)
    await propose(store, wide, 0)
    rows = []
    for stage in ("seed trace", "seed measure", "trace", "measure"):
        if stage == "trace":
            for ordinal in range(1, candidates):
                await propose(store, wide, ordinal)
        if stage.endswith("trace"):
            await evolution.sweep(await store.searches.get(wide.search))
        waiting = await asyncio.to_thread(answer_all, redis_url, WORKERS)
        began, cpu = time.perf_counter(), time.process_time()
        applied = _applied()
        while _applied() - applied < waiting:
            await evolution.tick()
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        row = {"what": "ingest", "database": kind, "kind": stage, "reports": waiting}
        rows.append({**row, "per_s": round(waiting / took_s, 1), "cpu_ms_a_report": round(1e3 * cpu_s / waiting, 2)})
    await store.searches.set_state(wide.search, SearchState.STOPPED)
    await dispatcher.close()
    await store.close()
    print(*rows[2:], sep="\n", flush=True)
    return rows[2:]


def _applied() -> float:
    """Reports that this process has applied; asking the queue each time would be a part of what is timed."""
    found = METRICS.registry.collect()
    return sum(item.value for each in found for item in each.samples if item.name == "reef_reports_total")


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
        lessee = LeaseClient(url, f"w{number}", target=TARGET, device=DEVICE, lease_ms=60_000)
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


class HttpReader:
    """A client with one connection, as cheap as one can be: what it takes itself is taken from whom it measures."""

    def __init__(self, address: str) -> None:
        self._host, self._port = address.rpartition("/")[2].split(":")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._idle_since = 0.0

    async def get(self, path: str) -> bool:
        """Ask for a page; whether it came."""
        try:
            async with asyncio.timeout(60):
                return await self._ask(path)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self.close()
            return False

    async def _ask(self, path: str) -> bool:
        if self._streams is None or time.monotonic() - self._idle_since > 3.0:  # The server closes idle ones after 5 s.
            self.close()
            self._streams = await asyncio.open_connection(self._host, int(self._port))
        reader, writer = self._streams
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n\r\n".encode())
        status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(field.partition(":")[2]) for field in fields if field.startswith("content-length:"))
        await reader.readexactly(length)
        self._idle_since = time.monotonic()
        return status.split()[1] == "200"

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


PAGES = ("", "/archive", "/progress", "/candidates")
"""Paths that readers of a search request, below its address."""


async def read(address: str, searches: Sequence[str], until: float, every_s: float) -> dict[str, list[float]]:
    """Be one reader; milliseconds of each request by page, `FAILED` for one that was not answered well."""
    rng, reader = random.Random(), HttpReader(address)
    spent_ms: dict[str, list[float]] = {page: [] for page in PAGES}
    await asyncio.sleep(rng.uniform(0, every_s))
    while time.monotonic() < until:
        page, began = rng.choice(PAGES), time.perf_counter()
        came = await reader.get(f"/api/v1/searches/{rng.choice(searches)}{page}")
        spent_ms[page].append(1e3 * (time.perf_counter() - began) if came else FAILED)
        await asyncio.sleep(max(0.0, every_s - (time.perf_counter() - began)))
    reader.close()
    return spent_ms


async def readers(
    address: str, pid: int, searches: Sequence[str], every_s: float, seconds: float, what: str
) -> dict[str, Any]:
    """Row: latency of the API under `READERS` readers, each of which asks once in `every_s` seconds.

    `cpu_ms_a_request` is all that the server's process took meanwhile, other work included, over the requests answered;
    `asked_cpu` is how much of a core the readers took themselves.
    """
    until, cpu_s, mine_s, began = time.monotonic() + seconds, _cpu_s(pid), time.process_time(), time.monotonic()
    spent = await asyncio.gather(*(read(address, searches, until, every_s) for _ in range(READERS)))
    took_s = time.monotonic() - began
    by_page = {page: sorted(ms for one in spent for ms in one[page] if ms != FAILED) for page in PAGES}
    spent_ms = sorted(ms for page in by_page.values() for ms in page)
    return {
        "what": what,
        "readers": READERS,
        "every_s": every_s,
        "requests_per_s": round(len(spent_ms) / took_s, 1),
        "failed": sum(ms == FAILED for one in spent for page in one.values() for ms in page),
        "p50_ms": round(statistics.median(spent_ms), 1),
        "p99_ms": _p99(spent_ms),
        "p99_ms_by_page": {page or "/": _p99(ms) for page, ms in by_page.items()},
        "cpu_ms_a_request": round(1e3 * (_cpu_s(pid) - cpu_s) / len(spent_ms), 2),
        "server_cpu": round((_cpu_s(pid) - cpu_s) / took_s, 2),
        "asked_cpu": round((time.process_time() - mine_s) / took_s, 2),
    }


def _p99(ascending_ms: Sequence[float]) -> float | None:
    return round(ascending_ms[int(0.99 * len(ascending_ms))], 1) if ascending_ms else None


def _cpu_s(pid: int) -> float:
    """Seconds of a core that a process has taken."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _first(lessee: LeaseClient) -> Lease:
    while True:
        lease = lessee.lease(5_000)
        if lease is not None:
            return lease


async def first_jobs(url: str, redis_url: str, count: int) -> dict[str, Any]:
    """Row: milliseconds from asking for a search to a waiting worker's having its first job."""
    lessee = LeaseClient(redis_url, "first", target=TARGET)
    waits_ms = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for number in range(count):
            waiting = asyncio.create_task(asyncio.to_thread(_first, lessee))
            await asyncio.sleep(0.1)
            began = time.perf_counter()
            body = {"operator": spec(f"first{number}"), "devices": [DEVICE], "evaluations": 10}
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


def coordinator(folder: Path, database: str, redis_url: str) -> tuple[RestartableProcess, str]:
    """A coordinator as it is served, not started yet, and its address."""
    folder.mkdir(parents=True)
    port = free_port("127.0.0.1")
    environment = {
        "REEF_DATABASE_URL": database,
        "REEF_REDIS_URL": redis_url,
        "REEF_DATA_DIR": str(folder),
        "REEF_LOCAL_WORKERS": "0",
        "REEF_IN_FLIGHT_PER_SEARCH": str(WORKERS // SEARCHES),
        "REEF_IN_FLIGHT_PER_OWNER": str(WORKERS),
        "REEF_IN_FLIGHT": str(WORKERS),
    }
    reef = [sys.executable, "-c", "from service.cli import main; main()", "serve", "--port", str(port)]
    return RestartableProcess(reef, folder / "served.log", environment), f"http://127.0.0.1:{port}"


async def fill(database: str, redis_url: str, candidates: int) -> tuple[str, int]:
    """A search all of whose candidates are judged, and how many cells they hold."""
    await migrate(database)
    store, dispatcher = await Store.open(database), Dispatcher(redis_url)
    evolution = Evolution(store, dispatcher, EventBus(), limits=CandidateLimits(1, 1, 1))
    wide = await prepare(store, "filled", candidates)
    for ordinals in (range(1), range(1, candidates)):
        for ordinal in ordinals:
            await propose(store, wide, ordinal)
        await evolution.sweep(await store.searches.get(wide.search))
        while await asyncio.to_thread(answer_all, redis_url, 8):
            while await dispatcher.stats.reports_waiting():
                await evolution.tick()
    await store.searches.set_state(wide.search, SearchState.STOPPED)
    cells = len(await store.elites.list(wide.search, DEVICE, 1))
    await dispatcher.close()
    await store.close()
    return wide.search, cells


async def pages(folder: Path, kind: str, database: str, redis_url: str) -> list[dict[str, Any]]:
    """Rows: what each page of a search costs the server, made anew and asked for again, without what it takes idle.

    A query that nobody reads makes a page another one. Few ask at once, so that nothing but the work is seen.
    """
    search, cells = await fill(database, redis_url, PAGE_CANDIDATES)
    served, address = coordinator(folder / f"pages-{kind}", database, redis_url)
    served.start()
    rows: list[dict[str, Any]] = []
    try:
        await _answers(address)
        idle_s, began = _cpu_s(served.pid), time.monotonic()
        await asyncio.sleep(10.0)
        idle = (_cpu_s(served.pid) - idle_s) / (time.monotonic() - began)
        asking = [HttpReader(address) for _ in range(4)]
        for page in PAGES:
            path = f"/api/v1/searches/{search}{page}"
            row = {"what": "page", "database": kind, "page": page or "/", "candidates": PAGE_CANDIDATES, "cells": cells}
            for how, suffix in (("anew", "?again={}"), ("kept", "")):
                await _ask(asking, path + suffix, WARM_UP)
                cpu_s, began = _cpu_s(served.pid), time.monotonic()
                await _ask(asking, path + suffix, PAGE_REQUESTS, WARM_UP)
                spent_s = _cpu_s(served.pid) - cpu_s - idle * (time.monotonic() - began)
                row[f"cpu_ms_{how}"] = round(1e3 * spent_s / PAGE_REQUESTS, 2)
            rows.append({**row, "idle_cpu": round(idle, 3)})
            print(rows[-1], flush=True)
        for reader in asking:
            reader.close()
        return rows
    finally:
        served.kill()


async def _ask(asking: Sequence[HttpReader], path: str, requests: int, first: int = 0) -> None:
    """Have a few readers ask for a page so many times."""
    numbers = iter(range(first, first + requests))

    async def go(reader: HttpReader) -> None:
        for number in numbers:
            assert await reader.get(path.format(number)), path

    await asyncio.gather(*map(go, asking))


async def steady(folder: Path, kind: str, database: str, redis_url: str, seconds: float) -> list[dict[str, Any]]:
    """Rows of a served coordinator under load."""
    served, address = coordinator(folder / f"served-{kind}", database, redis_url)
    workers = RestartableProcess(
        [sys.executable, "-m", "benchmarks.load", "--crowd", redis_url], folder / f"crowd-{kind}.log"
    )
    served.start()
    try:
        await _answers(address)
        rows = [await first_jobs(address, redis_url, 10)]
        searches = await _submit(address)
        rows.append(await readers(address, served.pid, searches, 1.0, 15.0, "readers, no jobs"))
        print(*rows, sep="\n", flush=True)
        workers.start()
        await asyncio.sleep(10.0)
        store = await Store.open(database)
        before, began = await _judged(store, searches), time.monotonic()
        memory = asyncio.create_task(_memory(served.pid, seconds))
        rows.append(await readers(address, served.pid, searches, 5.0, seconds, "readers, jobs running"))
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
            body = {"operator": spec(f"loaded{number}"), "devices": [DEVICE], "evaluations": 100_000}
            ids.append((await client.post("/api/v1/searches", json=body)).raise_for_status().json()["id"])
    return ids


async def _judged(store: Store, searches: Sequence[str]) -> int:
    return sum([(await store.candidates.count(search)).evaluated for search in searches])


async def _memory(pid: int, seconds: float) -> list[float]:
    process, sizes = psutil.Process(pid), []
    for _ in range(int(seconds / SAMPLE_S)):
        sizes.append(round(process.memory_info().rss / 2**20, 1))
        await asyncio.sleep(SAMPLE_S)
    return sizes


class ServerPool:
    """Databases and queues, a new one for each that is asked for, gone at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[RestartableProcess] = []

    def redis(self, what: str) -> str:
        """The address of a queue."""
        server = RedisServer(self._folder / f"redis-{what}", "127.0.0.1")
        return self._start(server, server.url)

    def database(self, kind: str, what: str) -> str:
        """The address of a database."""
        if kind == "SQLite":
            return f"sqlite+aiosqlite:///{self._folder}/{what}.db"
        server = PostgresServer(self._folder / f"postgres-{what}", "127.0.0.1")
        return self._start(server, server.url)

    def kill(self) -> None:
        """End them."""
        for server in self._servers:
            server.kill()

    def _start(self, server: Any, address: str) -> str:
        self._servers.append(server)
        server.start()
        return address


async def run(candidates: int, seconds: float, parts: Collection[str], kinds: Collection[str]) -> list[dict[str, Any]]:
    """Parts of it over some databases; rows."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="reef-load-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        servers = ServerPool(folder)
        try:
            if "collect" in parts:
                rows.append(await collected(servers.redis("collect"), candidates))
            for part, kind in itertools.product(parts, kinds):
                if part == "ingest":
                    rows += await ingest(servers.database(kind, part), servers.redis(part + kind), candidates, kind)
                if part == "pages":
                    rows += await pages(folder, kind, servers.database(kind, part), servers.redis(part + kind))
                if part == "steady":
                    found = await steady(
                        folder, kind, servers.database(kind, part), servers.redis(part + kind), seconds
                    )
                    rows += [{"database": kind, **row} for row in found]
        finally:
            servers.kill()
    return rows


def main() -> None:
    """Run and write `results/load.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--candidates", type=int, default=3_000, help="reports of each kind that are ingested")
    options.add_argument("--seconds", type=float, default=STEADY_S)
    options.add_argument("--crowd", help="be the workers of the queue at this address")
    options.add_argument("--only", choices=PARTS, help="this part alone; writes no file")
    options.add_argument("--database", choices=KINDS, help="over this database alone; writes no file")
    options.add_argument("--dry", action="store_true", help="write no file")
    chosen = options.parse_args()
    if chosen.crowd:
        crowd(chosen.crowd, WORKERS, 0.5)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    load = os.getloadavg()[0]
    parts, kinds = [chosen.only] if chosen.only else PARTS, [chosen.database] if chosen.database else KINDS
    rows = asyncio.run(run(chosen.candidates, chosen.seconds, parts, kinds))
    if not (chosen.dry or chosen.only or chosen.database):
        print(write("load", rows, load_average_before=round(load, 1)))


if __name__ == "__main__":
    main()
