"""What the archive's calls cost as it grows: proposals and offers a second, milliseconds for what each proposal asks.

Grows one search in an archive of its own, in bulk (rows written by SQL of the benchmark's own; no bundles, no reports),
and measures at each size through the store's own calls, as the service makes them: one transaction each, but for
`settle`, which is one for many reports. `at_once` is how many of a call were in flight
together; `database_bytes` is the size on disk and `load_average` that of the machine before measuring.

    python -m benchmarks.archive --sizes 1000,10000,100000
    python -m benchmarks.archive --sizes 1000 --url postgresql+psycopg://user@host/empty_database
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import insert, make_url, text, update
from uuid6 import uuid7

from archive.column_types import now
from archive.descriptors import DESCRIPTORS, coordinates
from archive.grid import Grid
from archive.policies import CellContext
from archive.records import (
    CandidateState,
    CandidateVerdict,
    NewCandidate,
    NewReport,
    NewSearch,
    NewVariant,
    Offer,
    Placement,
    TraceOutcome,
)
from archive.selection import select
from archive.store import Store, migrate
from archive.store.engine import Database
from archive.tables import candidates, counters, placements, variants
from benchmarks.record import write

DEVICE = "model:sm_90"
AXES = ("programs_per_sm", "num_warps", "registers", "load_width_bytes", "occupancy", "persistent")
SAMPLE = 500
"""Calls that a figure is the median of."""
AT_ONCE = 32
BATCH = 1000
TOGETHER = 100
"""Reports that ingestion settles in one transaction when it has much to do."""
SETTLED = 5
"""How many such transactions a figure is the median of."""
FILLED = 10_000
"""Cells that are held before the first measurement, of 12,000."""
SOURCE = (
    "import torch\nimport triton\nimport triton.language as tl\n" + "# a line of a kernel, as long as most are\n" * 60
)
"""As long as a catalogue kernel, 2.5 kB."""
BUNDLE = '{"assembly": "' + "\\n".join(f"ld.global.v4.b32 {{%r{i}, %r{i + 1}}}, [%rd{i}];" for i in range(1000)) + '"}'
"""As long as a bundle of one kernel, 40 kB."""
REPORT = '{"checks": "' + "correct on one more shape; " * 80 + '"}'
"""As long as a report, 2 kB."""


class GrowingSearch:
    """One search that grows. Kernels, cells and objectives are drawn; everything else is what the service would do."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.rng = random.Random(seed)
        self.grid = Grid([DESCRIPTORS[name].axis for name in AXES])
        self.search = str(uuid7())
        self.candidates: list[str] = []

    async def begin(self) -> None:
        """Store the search."""
        await self.store.operators.put("0" * 64, "rmsnorm", "{}")
        await self.store.searches.create(
            NewSearch(
                id=self.search,
                operator="0" * 64,
                operator_name="rmsnorm",
                devices=(DEVICE,),
                emitters=("tune",),
                axes=self.grid.axes,
                axes_version=1,
                budget=2**40,
                seed=0,
                shapes=(),
            )
        )

    async def propose(self, ordinal: int) -> None:
        """Store one candidate, child of an earlier one."""
        id = str(uuid7())
        parents = (self.rng.choice(self.candidates),) if self.candidates else ()
        new = NewCandidate(id, self.search, ordinal, "tune", SOURCE, f"d{id}", f"k{id}", parents, "num_warps 4 -> 8")
        await self.store.candidates.add(new)
        self.candidates.append(id)

    async def trace(self, candidate: str) -> None:
        """Store a candidate's variant with a bundle of its own."""
        variant = NewVariant(0, {}, bundle=f"b{candidate}", document=BUNDLE, readings=({"registers": 40},))
        await self.store.candidates.save_trace(candidate, TraceOutcome(None, "", None, {"compile": 0.3}, (variant,)))

    async def judge(self, candidate: str) -> None:
        """Give a candidate its verdict."""
        await self.store.candidates.judge(candidate, "correct", "", None, self.rng.random())

    async def offer(self, candidate: str) -> None:
        """Offer a candidate to the cell of a drawn kernel; objectives grow slowly, so that some offers win."""
        await self.store.elites.offer(self._offered(candidate))

    def _report(self, candidate: str) -> NewReport:
        job = f"{candidate}:0:{DEVICE}:measure"
        about = {"job": job, "search": self.search, "candidate": candidate, "variant": 0, "bundle": f"b{candidate}"}
        told = {"outcome": "correct", "reason": "", "provenance": "predicted", "document": REPORT}
        return NewReport(operator="0" * 64, device=DEVICE, kind="measure", protocol_version=1, **about, **told)

    async def fill(self, cells: int) -> None:
        """Let the first candidate hold so many cells, drawn."""
        drawn = self.rng.sample(range(self.grid.cells), cells)
        for start in range(0, cells, BATCH):
            batch = self.store.batch()
            for cell in drawn[start : start + BATCH]:
                batch.offer(replace(self._offered(self.candidates[0]), cell=cell))
            await batch.flush()

    def _offered(self, candidate: str) -> Offer:
        readings = {
            "programs_per_sm": 2 ** self.rng.uniform(-2, 8),
            "num_warps": 2 ** self.rng.randrange(6),
            "registers": self.rng.randrange(16, 160),
            "load_width_bytes": 2 ** self.rng.randrange(5),
            "occupancy": self.rng.random(),
            "persistent": self.rng.random() < 0.5,
        }
        where = coordinates(readings)
        cell = self.grid.index(where)
        assert cell is not None
        gain = self.rng.lognormvariate(0, 0.3) + 1e-6 * len(self.candidates)
        return Offer(
            search=self.search,
            device=DEVICE,
            axes_version=1,
            cell=cell,
            coordinates=where,
            candidate=candidate,
            variant=0,
            bundle=f"b{candidate}",
            job=f"{uuid7()}:0:{DEVICE}:measure",
            emitter="tune",
            objective=gain,
            low=gain,
            mid=gain,
            high=gain,
        )

    async def settle(self, fresh: Sequence[str]) -> None:
        """What ingestion does with so many traced candidates at once: reports, offers and verdicts, one transaction."""
        batch = self.store.batch()
        await batch.look_up(fresh, [f"b{id}" for id in fresh])
        for id in fresh:
            await batch.save_report(self._report(id))
            batch.offer(self._offered(id))
            batch.judge(CandidateVerdict(id, "correct", "", None, self.rng.random()))
        await batch.flush()

    async def select(self) -> None:
        """Choose a parent: read the grid and its visits, draw one."""
        elites = await self.store.elites.holders(self.search, DEVICE, 1)
        select(elites, self.rng, CellContext({holder.cell: holder.visits for holder in elites}))

    async def grow(self, size: int, database: Database) -> None:
        """Bring the search to that many judged candidates, each with a variant and a placement, in bulk."""
        ordinals = range(len(self.candidates), size)
        ids = [str(uuid7()) for _ in ordinals]
        self.candidates += ids
        for start in range(0, len(ids), BATCH):
            chunk = list(zip(ids, ordinals, strict=True))[start : start + BATCH]
            async with database.write() as connection:
                await connection.execute(insert(candidates), [self._candidate(*each) for each in chunk])
                await connection.execute(insert(variants), [self._variant(id) for id, _ in chunk])
                await connection.execute(insert(placements), [self._placement(id) for id, _ in chunk])
                total = chunk[-1][1] + 1
                await connection.execute(update(counters).values(proposals=total, candidates=total, judged=total))

    def _candidate(self, id: str, ordinal: int) -> dict[str, Any]:
        return {
            **{"id": id, "search": self.search, "ordinal": ordinal, "emitter": "tune", "source": SOURCE},
            **{"digest": f"d{id}", "trace_key": f"k{id}", "parents": (), "children": 0, "note": "num_warps 4 -> 8"},
            **{"state": CandidateState.JUDGED, "outcome": "correct", "reason": "", "objective": self.rng.random()},
            **{"stages_s": {"compile": 0.3}, "created_at": now()},
        }

    def _variant(self, id: str) -> dict[str, Any]:
        return {"candidate": id, "index": 0, "configuration": {}, "outcome": "correct", "reason": ""}

    def _placement(self, id: str) -> dict[str, Any]:
        return {
            **{"search": self.search, "device": DEVICE, "axes_version": 1, "cell": self.rng.randrange(self.grid.cells)},
            **{"candidate": id, "variant": 0, "bundle": f"b{id}", "job": f"{id}:0:{DEVICE}:measure"},
            **{"emitter": "tune", "objective": 0.5, "low": 0.5, "mid": 0.5, "high": 0.5},
            **{"placement": Placement.REJECTED, "offered_at": now()},
        }

    async def measure(self) -> list[dict[str, Any]]:
        """One row a call, at the present size."""
        store, search = self.store, self.search
        fresh = len(self.candidates)
        rows = [await timed("propose", [lambda at=at: self.propose(fresh + at) for at in range(SAMPLE)])]
        new = self.candidates[fresh:]
        for at in range(SAMPLE, SAMPLE + SETTLED * TOGETHER):
            await self.propose(fresh + at)
            await self.trace(self.candidates[-1])
        last = self.candidates[fresh + SAMPLE :]
        together = [last[start : start + TOGETHER] for start in range(0, len(last), TOGETHER)]
        rows.append(await timed(f"settle {TOGETHER} reports", [lambda ids=ids: self.settle(ids) for ids in together]))
        rows += [
            await timed("save trace", [lambda id=id: self.trace(id) for id in new]),
            await timed("judge", [lambda id=id: self.judge(id) for id in new]),
            await timed("offer", [lambda id=id: self.offer(id) for id in new]),
            await timed("offer", [lambda id=id: self.offer(id) for id in new], at_once=AT_ONCE),
            await timed("select a parent", [self.select] * 50),
            await timed("count", [lambda: store.candidates.count(search)] * SAMPLE),
            await timed("progress", [lambda: store.elites.progress(search, DEVICE, self.grid.cells)] * 100),
            await timed("trials", [lambda: store.candidates.trials(search, "tune")] * 100),
            await timed("unfinished", [lambda: store.candidates.unfinished(search)] * 100),
            await timed("find an equal trace", [lambda id=id: store.candidates.find_traced(f"k{id}") for id in new]),
        ]
        progress = await store.elites.progress(search, DEVICE, self.grid.cells)
        return [{"candidates": fresh, "cells": self.grid.cells, "elites": progress.elites, **row} for row in rows]


async def timed(call: str, actions: Sequence[Callable[[], Awaitable[object]]], at_once: int = 1) -> dict[str, Any]:
    """Rate over all actions, and the median and 90th percentile of each, milliseconds."""
    spent_ms: list[float] = []
    places = asyncio.Semaphore(at_once)

    async def one(action: Callable[[], Awaitable[object]]) -> None:
        async with places:
            started = time.perf_counter()
            await action()
            spent_ms.append((time.perf_counter() - started) * 1e3)

    started = time.perf_counter()
    await asyncio.gather(*(one(action) for action in actions))
    per_s = len(actions) / (time.perf_counter() - started)
    deciles = statistics.quantiles(spent_ms, n=10)
    return {
        "call": call,
        "at_once": at_once,
        "calls": len(actions),
        "per_s": round(per_s, 1),
        "median_ms": round(deciles[4], 3),
        "p90_ms": round(deciles[8], 3),
    }


async def size_bytes(url: str) -> int:
    """Bytes that the database takes on disk."""
    database = Database.open(url)
    sqlite = make_url(url).get_backend_name() == "sqlite"
    pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    async with database.read() as connection:
        size = await connection.scalar(text(pages if sqlite else "SELECT pg_database_size(current_database())"))
    await database.close()
    return int(size)


async def server(url: str) -> str:
    """Name and version of the database."""
    database = Database.open(url)
    async with database.read() as connection:
        sqlite = connection.dialect.name == "sqlite"
        version = await connection.scalar(text("SELECT sqlite_version()" if sqlite else "SHOW server_version"))
    await database.close()
    return f"{'SQLite' if sqlite else 'PostgreSQL'} {version}"


async def run(url: str, sizes: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Measure at each size; rows."""
    await migrate(url)
    store = await Store.open(url)
    growth = GrowingSearch(store, seed)
    database = Database.open(url)
    await growth.begin()
    await growth.grow(1, database)
    await growth.fill(FILLED)
    rows = []
    for size in sizes:
        await growth.grow(size, database)
        before = {"database_bytes": await size_bytes(url), "load_average": round(os.getloadavg()[0], 1)}
        for row in await growth.measure():
            rows.append({"database": await server(url), **row, **before})
            print(rows[-1], flush=True)
    await database.close()
    await store.close()
    return rows


def main() -> None:
    """Run and write `results/archive.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="1000,10000,100000", help="candidates at which to measure, ascending")
    options.add_argument("--url", help="an empty database; a temporary SQLite file if left out")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        url = chosen.url or f"sqlite+aiosqlite:///{Path(folder) / 'archive.db'}"
        rows = asyncio.run(run(url, sizes, chosen.seed))
    print(write("archive", rows))


if __name__ == "__main__":
    main()
