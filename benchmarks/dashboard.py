"""Cost of pages with a large archive: the service's time and bytes for each, and updates during promotions.

Grows one search in bulk (candidates, elites and milestones), then asks for every page through the whole app in this
process, and follows a search's stream of updates while offers win cells at a steady rate. `cpu_ms` is what this process
worked for a page, which a busy machine changes less than the time that passed. With `--browser` it also says how long a
page takes in Chromium until it can be used and until it is live, and how old its figures get in such a storm. The whole
takes some minutes.

    python -m benchmarks.dashboard --candidates 1000000 --cells 10000 --browser
"""

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.requests import Request
from uuid6 import uuid7

from archive.column_types import now
from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from archive.records import NewSearch, Offer, SearchState
from archive.store import Store, migrate
from archive.store.milestones import is_milestone
from benchmarks.record import write
from service.app import create_app
from service.coordinator import Coordinator
from service.dashboard.rendering import PageFrame
from service.dashboard.searches import search_live
from service.events import ElitePromoted
from service.operators.catalogue import load_catalogue
from service.settings import Settings
from service.tasks import end

DEVICE = "model:sm_90"
AXES = ("programs_per_sm", "num_warps", "registers", "shared_bytes", "load_width_bytes", "memory_path")
REPEATS = 30
"""Requests that a figure is the median of."""
RATE_PER_S, STORM_S = 100, 10
"""Cells that change hands a second, and for how long."""
WATCHERS = 8
"""Number of readers of the same search meanwhile."""
OPENED = 5
"""Times that a page is opened in Chromium."""
WATCH_TASKS = """
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({ type: "longtask", buffered: true });
"""
"""Notes the longest time for which a page did not answer, ms; Chromium counts tasks from 50 ms."""
SOURCE = "import torch\nimport triton\nimport triton.language as tl\n" + "# a line of a kernel, as most are\n" * 40
COORDINATES = json.dumps({name: {"value": 12345.67, "bin": 3} for name in DESCRIPTORS})
CHROMIUM = "/usr/bin/chromium"


@dataclass(frozen=True)
class LargeSearch:
    """A large search, and one of its candidates."""

    search: str
    candidate: str
    coordinator: Coordinator


async def grow(folder: Path, candidates: int, cells: int) -> tuple[str, str]:
    """Fill an archive in bulk; returns the ids of its search and of its last candidate."""
    url = f"sqlite+aiosqlite:///{folder / 'reef.db'}"
    await migrate(url)
    store = await Store.open(url)
    grid = Grid([DESCRIPTORS[name].axis for name in AXES])
    if grid.cells < cells:
        raise SystemExit(f"the grid has {grid.cells} cells only")
    search = str(uuid7())
    operator = load_catalogue()["rmsnorm"]
    await store.operators.put(operator.digest, operator.name, operator.model_dump_json())
    await store.searches.create(
        NewSearch(
            id=search,
            operator=operator.digest,
            operator_name="rmsnorm",
            devices=(DEVICE,),
            emitters=("tune", "rewrite"),
            axes=grid.axes,
            axes_version=1,
            evaluations=2 * candidates,
            seed=0,
            shapes=({"dims": {"M": 4096, "N": 4096}, "role": "benchmark", "weight": 1.0},),
        )
    )
    await store.searches.set_state(search, SearchState.PAUSED)
    await store.close()
    _fill(folder / "reef.db", search, candidates, cells, grid.cells // cells)
    return search, _id(_shown(candidates))


def _id(number: int) -> str:
    return f"01990000-0000-7000-8000-{number:012x}"


def _shown(candidates: int) -> int:
    """The candidate whose page is measured: one of many ancestors that has children."""
    return candidates // 2 - 1


def _fill(path: Path, search: str, candidates: int, cells: int, spread: int) -> None:
    at = now().isoformat(sep=" ").removesuffix("+00:00")
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {candidates} - 1)"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(
            f"""{numbers} INSERT INTO candidates (id, search, ordinal, emitter, source, digest, trace_key, parents,
            children, note, state, outcome, reason, objective, objectives, stages_s, created_at)
            SELECT printf('01990000-0000-7000-8000-%012x', i), ?, i, CASE i % 2 WHEN 0 THEN 'tune' ELSE 'rewrite' END,
            CASE WHEN i > {candidates} - 200 OR i = {_shown(candidates)} THEN ? ELSE '# ' || i END, 'd' || i, 'k' || i,
            CASE WHEN i > 0 THEN json_array(printf('01990000-0000-7000-8000-%012x', i / 2)) ELSE '[]' END,
            0, 'num_warps 4 -> 8', 'judged', CASE i % 4 WHEN 0 THEN 'wrong_result' ELSE 'correct' END, '',
            1 + (i % 1000) / 1000.0, json_object(?, 1 + (i % 1000) / 1000.0), '{{}}', ? FROM n""",
            (search, SOURCE, DEVICE, at),
        )
        database.execute(
            "INSERT INTO candidate_parents (parent, child) SELECT json_extract(parents, '$[0]'), id FROM candidates "
            "WHERE parents <> '[]'"
        )
        columns = "search, device, axes_version, cell, coordinates, candidate, variant, bundle, job, emitter, objective"
        rows = (
            (
                search,
                DEVICE,
                1,
                cell * spread,
                COORDINATES,
                _id(cell),
                0,
                "b",
                f"j{cell}",
                "tune",
                gain,
                gain,
                gain,
                gain,
                1,
                at,
            )
            for cell in range(cells)
            for gain in (1 + cell / cells,)
        )
        holes = ", ".join("?" * 16)
        database.executemany(
            f"INSERT INTO elites ({columns}, low, mid, high, revision, placed_at) VALUES ({holes})", rows
        )
        course = (
            (search, DEVICE, judged, min(judged, cells), float(judged), 2.0, at)
            for judged in range(1, candidates)
            if is_milestone(judged)
        )
        database.executemany(
            "INSERT INTO milestones (search, device, evaluations, elites, qd_score, best, reached_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            course,
        )
        database.execute("UPDATE counters SET proposals = ?, candidates = ?, evaluated = ?", (candidates,) * 3)
        for emitter in ("tune", "rewrite"):
            for event, times in (("proposed", candidates // 2), ("correct", 3 * candidates // 8)):
                database.execute("INSERT INTO tallies VALUES (?, '', ?, ?, ?)", (search, emitter, event, times))


def _pages(large: LargeSearch) -> dict[str, str]:
    """Every page, by name."""
    search = f"/searches/{large.search}"
    side = f"{large.search}@{DEVICE}"
    return {
        "overview": "/",
        "search": search,
        "search, other axes": f"{search}?x=memory_path&y=shared_bytes&num_warps=2&colour=age",
        "winners by shape": f"{search}/shapes",
        "candidates": f"{search}/candidates",
        "candidates, deep": f"{search}/candidates?before=1000&outcome=wrong_result",
        "candidate": f"/candidates/{large.candidate}",
        "compare": f"/compare?left={side}&right={side}",
        "operators": "/operators",
        "operator": "/operators/rmsnorm",
        "workers": "/workers",
        "prompts": "/prompts",
        "tokens": "/tokens",
        "login": "/login",
    }


async def measure_pages(client: httpx.AsyncClient, large: LargeSearch) -> AsyncIterator[dict[str, Any]]:
    """Time and size of every page. What is sent is compressed, which is part of its time."""
    for name, path in _pages(large).items():
        times_ms, worked_ms, size, packed = [], [], 0, 0
        for _ in range(REPEATS + 1):
            began, busy = time.perf_counter(), time.process_time()
            answer = await client.get(path)
            times_ms.append((time.perf_counter() - began) * 1000)
            worked_ms.append((time.process_time() - busy) * 1000)
            answer.raise_for_status()
            size, packed = len(answer.content), int(answer.headers["content-length"])
        yield {
            "page": name,
            "first_ms": round(times_ms[0], 1),
            "median_ms": round(statistics.median(times_ms[1:]), 1),
            "cpu_ms": round(statistics.median(worked_ms[1:]), 1),
            "p95_ms": round(statistics.quantiles(times_ms[1:], n=20)[-1], 1),
            "bytes": size,
            "sent_bytes": packed,
        }


@dataclass
class PromotionLoad:
    """Cells that change hands at a steady rate.

    Attributes:
        least: Speedup of the first kernel; each one gains a hundredth.
        offered: By number, when each offer was made, in seconds since 1970.
        seconds: How long it blew.
    """

    least: float
    offered: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0

    def best(self, number: int) -> float:
        """Speedup that an offer brings."""
        return self.least + number / 100

    async def blow(self, large: LargeSearch) -> None:
        """Win a cell again and again, each time with a better kernel, and say so."""
        store, events = large.coordinator.store, large.coordinator.events
        began, number = time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < STORM_S:
            await store.elites.offer(_offer(large, number, self.best(number)))
            events.publish(ElitePromoted(large.search, DEVICE, number, large.candidate, self.best(number), "improved"))
            self.offered[number] = time.time()
            number += 1
            await asyncio.sleep(max(0.0, number / RATE_PER_S - (time.perf_counter() - began)))
        self.seconds = spent

    def lags_ms(self, shown: Iterable[tuple[float, str]]) -> list[float]:
        """Return the age of the shown state when it was drawn: moments in seconds since 1970, and the best in words."""
        numbers = {f"{self.best(number):.2f}": number for number in self.offered}
        lags = []
        for at, text in shown:
            number = numbers.get(text.strip("\u2248\u00d7 "))
            # What is shown is up to date until the next one is offered.
            if number is not None and number + 1 in self.offered:
                lags.append(max(0.0, 1000 * (at - self.offered[number + 1])))
        return lags

    def row(self, page: str, shown: Sequence[tuple[float, str]], **more: Any) -> dict[str, Any]:
        """Return the row of the figures."""
        lags = self.lags_ms(shown)
        return {
            "page": page,
            "promotions_per_s": round(len(self.offered) / self.seconds, 1),
            "redraws_per_s": round(len(shown) / self.seconds, 2),
            "median_lag_ms": round(statistics.median(lags)) if lags else None,
            "longest_lag_ms": round(max(lags)) if lags else None,
            **more,
        }


async def measure_storm(large: LargeSearch) -> dict[str, Any]:
    """Follow a search's updates with several watchers while cells change hands."""
    search = await large.coordinator.store.searches.get(large.search)
    request = Request({"type": "http", "query_string": b"", "headers": []})
    shown: list[list[tuple[float, str]]] = [[] for _ in range(WATCHERS)]
    sizes: list[int] = []

    async def follow(mine: list[tuple[float, str]]) -> None:
        async for update in search_live(search, large.coordinator, PageFrame(scopes=frozenset({"read"})), request):
            sizes.append(len(json.dumps(update.data)))
            if update.event == "part" and update.data["name"] == "status":
                best = re.search(r"\u2248(\d+\.\d\d)\u00d7</a>", update.data["inside"])
                mine.append((time.time(), best[1] if best else ""))

    following = [asyncio.create_task(follow(mine)) for mine in shown]
    await asyncio.sleep(2)
    sizes.clear()
    storm, busy = PromotionLoad(least=20.0), time.process_time()
    await storm.blow(large)
    worked = time.process_time() - busy
    sent = sum(sizes)
    await end(following)
    return storm.row(
        f"updates to {WATCHERS} watchers, {RATE_PER_S} promotions a second wanted",
        shown[0],
        bytes_per_s_each=round(sent / WATCHERS / storm.seconds),
        cpu_share=round(worked / storm.seconds, 2),
    )


async def measure_storm_in_browser(page: Any, large: LargeSearch) -> dict[str, Any]:
    """The same as a page in Chromium shows it."""
    await page.evaluate(
        """() => {
            window.drawn = [];
            const note = () => {
              const best = document.querySelector("#status .big a");
              if (best) window.drawn.push([Date.now() / 1000, best.textContent]);
            };
            new MutationObserver(note).observe(document.getElementById("status"), { childList: true });
        }"""
    )
    storm = PromotionLoad(least=3.0)
    await storm.blow(large)
    drawn = [(at, text) for at, text in await page.evaluate("window.drawn")]
    long_tasks = await page.evaluate("window.longest")
    return storm.row(
        f"search in Chromium, {RATE_PER_S} promotions a second wanted", drawn, longest_task_ms=round(long_tasks)
    )


def _offer(large: LargeSearch, number: int, gain: float) -> Offer:
    return Offer(
        search=large.search,
        device=DEVICE,
        axes_version=1,
        cell=number,
        coordinates={},
        candidate=large.candidate,
        variant=0,
        bundle="b",
        job=str(uuid7()),
        emitter="tune",
        objective=gain,
        low=gain,
        mid=gain,
        high=gain,
    )


async def measure_browser(app: Any, large: LargeSearch) -> AsyncIterator[dict[str, Any]]:
    """Milliseconds until pages can be used, and until they are live, in Chromium; then a storm seen in it."""
    from playwright.async_api import async_playwright  # noqa: PLC0415

    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, lifespan="off", log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        for name, path in _pages(large).items():
            yield await _open(browser, name, address + path)
        page = await browser.new_page()
        await page.add_init_script(WATCH_TASKS)
        await page.goto(f"{address}/searches/{large.search}")
        await page.locator("#live[data-state=on]").wait_for()
        yield await measure_storm_in_browser(page, large)
        await browser.close()
    server.should_exit = True
    await serving


async def _open(browser: Any, name: str, address: str) -> dict[str, Any]:
    """Open a page several times, each time as if for the first."""
    usable_ms, live_ms = [], []
    for _ in range(OPENED):
        page = await browser.new_page()
        began = time.perf_counter()
        await page.goto(address)
        timing = await page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        usable_ms.append(timing)
        if await page.locator("#live").count():
            await page.locator("#live[data-state=on]").wait_for()
            live_ms.append((time.perf_counter() - began) * 1000)
        await page.close()
    return {
        "page": f"{name} in Chromium",
        "interactive_ms": round(statistics.median(usable_ms)),
        "live_ms": round(statistics.median(live_ms)) if live_ms else None,
    }


async def run(candidates: int, cells: int, browser: bool, keep: Callable[[dict[str, Any]], None]) -> None:
    """Grow an archive and measure everything on it."""
    with tempfile.TemporaryDirectory(prefix="reef-dashboard-") as made:
        folder = Path(made)
        began = time.perf_counter()
        search, candidate = await grow(folder, candidates, cells)
        print(
            f"archive of {(folder / 'reef.db').stat().st_size / 2**20:.0f} MiB in {time.perf_counter() - began:.0f} s"
        )
        app = create_app(Settings(data_dir=folder, local_workers=0))
        async with app.router.lifespan_context(app):
            large = LargeSearch(search, candidate, app.state.coordinator)
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
            async with client:
                async for row in measure_pages(client, large):
                    keep(row)
            if browser:
                async for row in measure_browser(app, large):
                    keep(row)
            keep(await measure_storm(large))


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--browser", action="store_true", help="also measure in Chromium")
    options = parser.parse_args()
    if options.browser and not shutil.which("chromium"):
        parser.error("there is no chromium")
    rows: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:
        print(row, flush=True)
        rows.append(row)

    asyncio.run(run(options.candidates, options.cells, options.browser, keep))
    print(write("dashboard", rows, candidates=options.candidates, cells=options.cells))


if __name__ == "__main__":
    main()
