"""What it takes to export a search's trajectories, and to learn from it: seconds, and memory at its largest.

Grows one search in an archive of its own, in bulk, with a report on every candidate; bundles are shared, as those of
candidates with equal plans are. Each row is a process of its own, so that its largest resident memory is its own.

    python -m benchmarks.trajectories --sizes 1000,10000,100000
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import insert, update
from uuid6 import uuid7

from archive.column_types import now
from archive.records import AxisRecord, CandidateState, NewSearch, NewVariant, SearchState, TraceOutcome
from archive.store import Store, migrate
from archive.store.engine import Database
from archive.tables import candidates, counters, reports, variants
from benchmarks.record import write
from service.analysis.trajectories import trajectories
from service.knowledge.distillation import distil
from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from workers.protocol import Device, Outcome, Provenance, Readings, Report, ShapeResult, ShapeRole

DEVICE = "model:sm_90"
OPERATOR = load_catalogue()["rmsnorm"]
SHAPES = all_shapes(OPERATOR, 1)
TIMED = [shape.key for shape in SHAPES if shape.role is ShapeRole.BENCHMARK]
BUNDLES = 200
"""Different plans among all candidates."""
BATCH = 1000
NOTES = ("num_warps 8 -> 4", "num_warps 4 -> 8", "BLOCK 1024 -> 2048", "chunk_row", "hoist_load + chunk_row")


async def grow(url: str, size: int) -> str:
    """Store a search with that many judged candidates; its id."""
    await migrate(url)
    store, database, rng = await Store.open(url), Database.open(url), random.Random(size)
    search = str(uuid7())
    await store.operators.put(OPERATOR.digest, OPERATOR.name, OPERATOR.model_dump_json())
    shapes = tuple(shape.model_dump(mode="json") for shape in SHAPES)
    await store.searches.create(
        NewSearch(
            search,
            OPERATOR.digest,
            OPERATOR.name,
            (DEVICE,),
            ("tune",),
            (AxisRecord("num_warps", 6),),
            1,
            2**40,
            0,
            shapes,
        )
    )
    ids = [str(uuid7()) for _ in range(size)]
    for start in range(0, size, BATCH):
        chunk = range(start, min(size, start + BATCH))
        async with database.write() as connection:
            await connection.execute(insert(candidates), [_candidate(search, ids, index, rng) for index in chunk])
        if start == 0:
            await _bundles(store, ids[0])
        async with database.write() as connection:
            await connection.execute(insert(variants), [_variant(ids[index], index) for index in chunk if index])
            await connection.execute(insert(reports), [_report(search, ids[index], index, rng) for index in chunk])
    async with database.write() as connection:
        await connection.execute(update(counters).values(proposals=size, candidates=size, judged=size))
        await connection.execute(update(candidates).values(state=CandidateState.JUDGED))
    await store.searches.set_state(search, SearchState.DONE)
    await database.close()
    await store.close()
    return search


async def _bundles(store: Store, first: str) -> None:
    """Store every bundle, as variants of the first candidate."""
    found = []
    for number in range(BUNDLES):
        readings = _readings(number).model_dump(mode="json")
        found.append(
            NewVariant(
                index=number,
                configuration={},
                bundle=f"{number:064}",
                document="{}",
                readings=(readings,) * len(SHAPES),
            )
        )
    await store.candidates.save_trace(first, TraceOutcome(None, "", None, {}, tuple(found)))


def _readings(number: int) -> Readings:
    return Readings(
        launches=1,
        programs=4096,
        programs_per_sm=31.0,
        num_warps=2 ** (number % 5),
        registers=24 + number,
        spill_bytes=0,
        shared_bytes=0,
        occupancy=0.5,
        load_width_bytes=16,
        memory_path="plain",
        tensor_core="none",
        bytes_required=67_117_056,
        persistent=False,
        instructions={"load_global": 8, "float": 90},
    )


def _candidate(search: str, ids: Sequence[str], index: int, rng: random.Random) -> dict[str, Any]:
    """A candidate whose parent is one of those before it, more often a late one."""
    parent = ids[max(0, index - 1 - int(rng.expovariate(1 / 200)))]
    return {
        **{"id": ids[index], "search": search, "ordinal": index, "emitter": "tune" if index else "seed"},
        **{"source": OPERATOR.seeds[0] + f"# {index}\n", "digest": f"d{index}", "trace_key": f"k{index}"},
        **{"parents": (parent,) if index else (), "children": 0, "note": rng.choice(NOTES)},
        **{"state": CandidateState.QUEUED, "outcome": "correct", "reason": "", "objective": 1.0},
        **{"stages_s": {"compile": 0.3}, "created_at": now()},
    }


def _variant(candidate: str, index: int) -> dict[str, Any]:
    bundle = f"{index % BUNDLES:064}"
    return {"candidate": candidate, "index": 0, "configuration": {}, "bundle": bundle, "outcome": None, "reason": ""}


def _report(search: str, candidate: str, index: int, rng: random.Random) -> dict[str, Any]:
    time_us = 20.0 * rng.uniform(0.8, 1.2)
    correct = index == 0 or rng.random() < 0.7
    report = Report(
        job=f"{candidate}:0:{DEVICE}:measure",
        search=search,
        candidate=candidate,
        variant=0,
        bundle=f"{index % BUNDLES:064}",
        device=Device.parse(DEVICE),
        worker="bench",
        outcome=Outcome.CORRECT if correct else Outcome.WRONG_RESULT,
        provenance=Provenance.PREDICTED,
        shapes=tuple(ShapeResult(shape=shape, mid_us=time_us, low_us=time_us, high_us=time_us) for shape in TIMED),
    )
    return {
        **{"job": report.job, "search": search, "candidate": candidate, "variant": 0, "bundle": report.bundle},
        **{"operator": OPERATOR.digest, "device": DEVICE, "kind": "measure", "protocol_version": 1},
        **{"outcome": report.outcome.value, "reason": "", "provenance": "predicted"},
        **{"document": report.model_dump_json(), "created_at": now()},
    }


async def read(url: str, id: str, what: str) -> dict[str, Any]:
    """Export or learn, and say what it took."""
    store = await Store.open(url)
    search = await store.searches.get(id)
    before, started, written = _peak_mib(), time.perf_counter(), 0
    if what == "learn":
        await distil(store, search)
    else:
        async for record in trajectories(store, search, rewards=True):
            written += len(record.model_dump_json()) + 1
    seconds = time.perf_counter() - started
    await store.close()
    return {
        **{"seconds": round(seconds, 2), "written_bytes": written},
        **{"memory_before_mib": before, "memory_peak_mib": _peak_mib()},
    }


def _peak_mib() -> float:
    """Largest resident memory of this process, MiB: Linux's own figure, which `getrusage` mixes with the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024, 1)


def measure(url: str, search: str, what: str, size: int) -> dict[str, Any]:
    """One row, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.trajectories", "--read", url, search, what]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = {"what": what, "candidates": size, "load_average": round(os.getloadavg()[0], 1), **json.loads(found)}
    print(row)
    return row


def main() -> None:
    """Run and write `results/trajectories.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="1000,10000,100000", help="candidates of the searches to be read")
    options.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.read:
        print(json.dumps(asyncio.run(read(*chosen.read))))
        return
    rows = []
    for size in map(int, chosen.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite+aiosqlite:///{Path(folder) / 'archive.db'}"
            search = asyncio.run(grow(url, size))
            rows += [measure(url, search, what, size) for what in ("export", "learn")]
    print(write("trajectories", rows))


if __name__ == "__main__":
    main()
