"""Many requests at a slow model: how the event loop fares meanwhile, what memory they take, and whether budgets hold.

A vendor of our own, in a process of its own, answers each chat completion after a while. One search asks it many times
at once, through everything that a search uses: archive, reservation, limits, HTTP, answer, settlement. The loop's lag
is how much later than asked a short sleep ends, sampled every 10 ms on the same loop: for as long as one request takes
while nothing is asked (`idle`), which shows what else the machine does, and from the first request to the last answer
(`busy`). In the second row the budget allows one call fewer than are asked for; `answered` and `refused` must be
exactly what it says, and the vendor must have seen as many calls.

    python -m benchmarks.llm --requests 200 --seconds 30
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio.lowlevel
from uuid6 import uuid7

from archive.records import AxisRecord, NewSearch
from archive.store import Store, migrate
from benchmarks.record import write
from service.app import create_app
from service.llm import BudgetExhausted, LlmAnswer, LlmPrompt, Purpose
from service.llm_gateway.gateway import LlmGateway
from service.requests import LlmSettings
from service.settings import Settings

SAMPLE_S = 0.01
PROMPT_BYTES = 20_000
"""As long as a prompt with two kernels and their readings."""
ANSWER_BYTES = 8_000
"""As long as a kernel with some words."""


def serve(pipe: Connection, seconds: float) -> None:
    """Be a vendor until terminated; says its port."""
    asyncio.run(_serve(pipe, seconds))


async def _serve(pipe: Connection, seconds: float) -> None:
    text = "#" * ANSWER_BYTES
    message = {"role": "assistant", "content": text}
    body = json.dumps(
        {
            "model": "slow",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": PROMPT_BYTES // 4, "completion_tokens": ANSWER_BYTES // 4},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    seen = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        request = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line[15:]) for line in request.splitlines() if line.startswith("content-length:"))
        await reader.readexactly(length)
        seen += 1
        await asyncio.sleep(seconds)
        writer.write(head + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    pipe.send(server.sockets[0].getsockname()[1])
    while not await asyncio.to_thread(pipe.poll, 0.2):
        continue
    pipe.send(seen)


def memory_mib() -> float:
    """Resident memory of this process."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def sample(lags_ms: list[float]) -> None:
    """Note by how much each short sleep is too long."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(SAMPLE_S)
        lags_ms.append(1000 * (time.perf_counter() - started - SAMPLE_S))


@contextlib.asynccontextmanager
async def sampled() -> AsyncIterator[list[float]]:
    """Lags of the loop, in milliseconds, while the block runs."""
    lags_ms: list[float] = []
    task = asyncio.create_task(sample(lags_ms))
    try:
        yield lags_ms
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def summary(lags_ms: list[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    percentiles = statistics.quantiles(lags_ms, n=100)
    return {
        "median_ms": round(statistics.median(lags_ms), 2),
        "p99_ms": round(percentiles[98], 2),
        "max_ms": round(max(lags_ms), 2),
    }


async def new_search(store: Store, calls: int) -> str:
    """A search that may make so many calls."""
    await store.operators.put("0" * 64, "rmsnorm", "{}")
    search = await store.searches.create(
        NewSearch(
            id=str(uuid7()),
            operator="0" * 64,
            operator_name="rmsnorm",
            devices=("model:sm_90",),
            emitters=("llm",),
            axes=(AxisRecord("num_warps", 6),),
            axes_version=1,
            budget=1000,
            seed=0,
            shapes=(),
            llm=LlmSettings(backends=("slow",), calls=calls).model_dump(mode="json"),
        )
    )
    return search.id


async def ask(asking: LlmGateway, search: str, ordinal: int) -> LlmAnswer:
    """One prompt of one proposal."""
    purpose = Purpose(search, ordinal, 0, "improve", "improve@1", {}, (), None)
    return await asking(LlmPrompt("You write kernels.", f"{ordinal} " + "x" * PROMPT_BYTES, 8192), purpose)


async def measure(folder: Path, port: int, requests: int, calls: int, seconds: float) -> dict[str, Any]:
    """One row."""
    (folder / "backends.toml").write_text(
        f'[backends.slow]\nkind = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\nmodel = "slow"\n'
        f"max_concurrency = {requests}\n[prices.slow]\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
    )
    url = f"sqlite+aiosqlite:///{folder / 'reef.db'}"
    await migrate(url)
    store = await Store.open(url)
    create_app(Settings(data_dir=folder))
    search, asking = await new_search(store, calls), LlmGateway(store, folder)
    # What a service that has answered a request has loaded: else the first call imports for half a second.
    await anyio.lowlevel.checkpoint()
    async with sampled() as idle:
        await asyncio.sleep(seconds)
    before_mib, most_mib = memory_mib(), 0.0
    started = time.perf_counter()
    async with sampled() as busy:
        tasks = [asyncio.create_task(ask(asking, search, ordinal)) for ordinal in range(requests)]
        while any(not task.done() for task in tasks):
            await asyncio.sleep(0.25)
            most_mib = max(most_mib, memory_mib())
        results = await asyncio.gather(*tasks, return_exceptions=True)
    wall_s = time.perf_counter() - started
    (purse, _) = await store.spending.of_search(search)
    outstanding = await store.spending.outstanding(search)
    await asking.close()
    await store.close()
    return {
        "requests": requests,
        "model_s": seconds,
        "calls_allowed": calls,
        "answered": sum(isinstance(result, LlmAnswer) for result in results),
        "refused": sum(isinstance(result, BudgetExhausted) for result in results),
        "calls_charged": purse.calls,
        "tokens_charged": purse.tokens,
        "usd_charged": round(purse.usd, 6),
        "reservations_left": len(outstanding),
        "wall_s": round(wall_s, 2),
        "idle_lag": summary(idle),
        "busy_lag": summary(busy),
        "memory_before_mib": round(before_mib, 1),
        "memory_most_mib": round(most_mib, 1),
        "memory_after_mib": round(memory_mib(), 1),
    }


def row(requests: int, calls: int, seconds: float) -> dict[str, Any]:
    """One row, with a vendor and an archive of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    vendor = context.Process(target=serve, args=(theirs, seconds), daemon=True)
    vendor.start()
    port = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(measure(Path(folder), port, requests, calls, seconds))
    ours.send("end")
    measured["calls_seen_by_the_vendor"] = ours.recv()
    vendor.join()
    return measured


def main() -> None:
    """Run and write `results/llm.json`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=200)
    options.add_argument("--seconds", type=float, default=30.0)
    arguments = options.parse_args()
    load = os.getloadavg()[0]
    requests = arguments.requests
    rows = [row(requests, allowed, arguments.seconds) for allowed in (requests, requests - 1)]
    for each in rows:
        print(each)
    print(write("llm", rows, load_average_before=round(load, 2)))


if __name__ == "__main__":
    main()
