"""Round trips a second through the queue: a job submitted, leased, reported, collected, acknowledged.

Jobs carry a payload of the size of a small bundle. Lessees run in processes of their own, the dispatcher in this one,
the embedded server beside them, all on this machine.

    python -m benchmarks.queue --jobs 2000
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.record import write
from service.embedded import EmbeddedServer
from workers.protocol import Operator, Outcome, Shape, TraceJob, TraceReport
from workers.queue import Dispatcher, LeaseClient

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


def work(url: str, worker: str) -> None:
    """Report on every job at once, until terminated."""
    lessee = LeaseClient(url, worker, target="sm_90")
    while True:
        lease = lessee.lease(block_ms=1_000)
        if lease is not None and isinstance(lease.job, TraceJob):
            report = TraceReport(job=lease.job.id, search=lease.job.search, worker=worker, outcome=Outcome.CORRECT)
            lessee.report(lease, report)


def job(index: int, searches: int, payload_bytes: int) -> TraceJob:
    """A trace job with a source of a given size."""
    shape = Shape(dims={"N": 64})
    source = "#" * payload_bytes
    search = f"search-{index % searches}"
    return TraceJob(id=f"job-{index}", search=search, source=source, operator=OPERATOR, shapes=(shape,), target="sm_90")


async def throughput(url: str, jobs: int, searches: int, payload_bytes: int) -> dict[str, float]:
    """Submit everything, collect everything; jobs a second over the whole, submissions a second alone."""
    dispatcher = Dispatcher(url)
    started = time.perf_counter()
    for index in range(jobs):
        await dispatcher.submit(job(index, searches, payload_bytes))
    submitted = time.perf_counter()
    done: set[str] = set()
    while len(done) < jobs:
        deliveries = await dispatcher.collect(count=256, block_ms=1_000)
        done |= {delivery.report.job for delivery in deliveries}
        await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
    ended = time.perf_counter()
    await dispatcher.close()
    return {"jobs_per_s": round(jobs / (ended - started)), "submitted_per_s": round(jobs / (submitted - started))}


async def latency(url: str, jobs: int, payload_bytes: int) -> dict[str, float]:
    """One job at a time, with the worker asleep: milliseconds from submission to collected report."""
    dispatcher = Dispatcher(url)
    waits_ms = []
    for index in range(jobs):
        started = time.perf_counter()
        await dispatcher.submit(job(index, 1, payload_bytes))
        while not (deliveries := await dispatcher.collect(block_ms=1_000)):
            continue
        waits_ms.append(1_000 * (time.perf_counter() - started))
        await dispatcher.acknowledge([delivery.receipt for delivery in deliveries])
    await dispatcher.close()
    percentiles = statistics.quantiles(waits_ms, n=100)
    return {"p50_ms": round(statistics.median(waits_ms), 2), "p99_ms": round(percentiles[98], 2)}


async def measure(jobs: int, workers: int, searches: int, payload_bytes: int) -> dict[str, Any]:
    """One row, on a fresh server."""
    with tempfile.TemporaryDirectory() as folder:
        async with EmbeddedServer(Path(folder)) as server:
            context = multiprocessing.get_context("spawn")
            crew = [context.Process(target=work, args=(server.url, f"w-{n}"), daemon=True) for n in range(workers)]
            for process in crew:
                process.start()
            dispatcher = Dispatcher(server.url)
            while len(await dispatcher.workers()) < workers:
                await asyncio.sleep(0.05)
            await dispatcher.close()
            row = {"jobs": jobs, "workers": workers, "searches": searches, "payload_bytes": payload_bytes}
            row |= await throughput(server.url, jobs, searches, payload_bytes)
            if workers == 1:
                row |= await latency(server.url, min(jobs, 300), payload_bytes)
            for process in crew:
                process.terminate()
                process.join()
    return row


def main() -> None:
    """Run and write `results/queue.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=2_000)
    arguments = options.parse_args()
    plans = [(1, 1, 4_096), (2, 4, 4_096), (2, 4, 262_144)]
    load = os.getloadavg()[0]
    rows = [asyncio.run(measure(arguments.jobs, *plan)) for plan in plans]
    for row in rows:
        print(row)
    print(write("queue", rows, load_average_before=round(load, 2)))


if __name__ == "__main__":
    main()
