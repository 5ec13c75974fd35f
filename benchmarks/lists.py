"""Cost of lists with a large archive: the time of one page for each filter and order, and of the deletion of a search.

Grows one search in bulk beside a smaller one, then reads pages near the beginning, the middle and the end of the large
search's list of candidates, and deletes the small search.

    python -m benchmarks.lists --candidates 1000000
"""

import argparse
import asyncio
import contextlib
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from archive.records import CandidateFilter, SearchFilter, SearchState
from archive.store import Store
from benchmarks.dashboard import DEVICE, SOURCE, grow
from benchmarks.record import RESULTS, write

REPEATS = 9
"""Pages that a figure is the median of."""
SEARCHES, SMALL = 10_000, 5_000
"""Number of searches in the list, and of candidates of the search that is deleted."""
FILTERS = {
    "none": CandidateFilter(),
    "emitter": CandidateFilter(emitter="tune"),
    "outcome": CandidateFilter(outcome="wrong_result"),
    "emitter and outcome, frequent": CandidateFilter(emitter="tune", outcome="wrong_result"),
    "emitter and outcome, never": CandidateFilter(emitter="rewrite", outcome="wrong_result"),
    "cell": CandidateFilter(cell=7, device=DEVICE),
    "device": CandidateFilter(device=DEVICE),
    "text, frequent": CandidateFilter(text="TRITON"),
    "text, never": CandidateFilter(text="no kernel says this"),
}


def _prepare(path: Path) -> str:
    """Give every candidate a long source and a placement, and add other searches; returns the one to delete."""
    small = "01980000-0000-7000-8000-000000000000"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        names = [row[1] for row in database.execute("PRAGMA table_info(searches)")]
        others = ", ".join(name for name in names if name not in ("id", "name", "state"))
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {SEARCHES} - 1)"
        database.execute(
            f"{numbers} INSERT INTO searches (id, name, state, {others}) "
            f"SELECT printf('01980000-0000-7000-8000-%012x', i), 'run ' || (i * 7919 % 10007), 'done', {others} "
            "FROM n, searches"
        )
        database.execute("UPDATE candidates SET source = ? || '# ' || ordinal", (SOURCE,))
        columns = [row[1] for row in database.execute("PRAGMA table_info(candidates)")]
        same = ", ".join(name for name in columns if name not in ("id", "search"))
        database.execute(
            f"INSERT INTO candidates (id, search, {same}) SELECT '0198' || substr(id, 5), ?, {same} FROM candidates "
            f"WHERE ordinal < {SMALL}",
            (small,),
        )
        for search, most in ((small, SMALL), (None, 1 << 40)):
            database.execute(
                "INSERT INTO placements (search, device, axes_version, cell, candidate, variant, bundle, job, emitter, "
                "objective, low, mid, high, placement, offered_at) SELECT search, ?, 1, ordinal % 10000, id, 0, 'b', "
                "id, emitter, objective, 1, 1, 1, 'rejected', created_at FROM candidates WHERE objective IS NOT NULL "
                "AND ordinal < ? AND (search = ?) = ?",
                (DEVICE, most, small, search == small),
            )
            database.execute(
                "INSERT INTO variants (candidate, \"index\", configuration, reason) SELECT id, 0, '{}', '' "
                "FROM candidates WHERE ordinal < ? AND (search = ?) = ?",
                (most, small, search == small),
            )
    return small


async def _median_ms(read: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        await read()
        took.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(took), 1)


async def measure(path: Path, search: str, small: str, candidates: int) -> dict[str, object]:
    """Measure all lists, then the deletion."""
    store = await Store.open(f"sqlite+aiosqlite:///{path}")
    lists = store.listings
    found: dict[str, object] = {}
    for name, where in FILTERS.items():
        places = {"-created": (candidates, candidates // 2, 1000), "-objective": (9.0, 1.5, 1.001)}
        for sort, keys in places.items():
            pages = [(key,) if sort == "-created" else (key, candidates) for key in keys]
            took = [
                await _median_ms(
                    lambda after=after, sort=sort, where=where: lists.candidates(search, where, sort=sort, after=after)
                )
                for after in pages
            ]
            found[f"candidates, {sort}, filter {name}"] = max(took)
    for sort in ("-created", "name", "-operator", "-best"):
        for name, where in {
            "none": SearchFilter(),
            "text": SearchFilter(text="run 77"),
            "device": SearchFilter(device=DEVICE),
        }.items():
            found[f"searches, {sort}, filter {name}"] = await _median_ms(
                lambda sort=sort, where=where: lists.searches(where, sort=sort)
            )
    await store.searches.set_state(small, SearchState.DONE)
    began = time.perf_counter()
    removed = await store.retention.delete(small)
    found["deletion, s"] = round(time.perf_counter() - began, 2)
    found["deletion, rows"] = sum(removed.values())
    await store.close()
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reef.db"
        search, _ = asyncio.run(grow(Path(folder), given.candidates, min(10_000, given.candidates)))
        small = _prepare(path)
        size_mb = round(path.stat().st_size / 1e6)
        found = asyncio.run(measure(path, search, small, given.candidates))
    for name, value in found.items():
        print(f"{value:>10} {name}")
    rows = [{"list": name, "value": value} for name, value in found.items()]
    write("lists", rows, given.out, candidates=given.candidates, searches=SEARCHES, megabytes=size_mb, unit="ms a page")


if __name__ == "__main__":
    main()
