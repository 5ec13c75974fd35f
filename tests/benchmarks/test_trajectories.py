"""The search that the figures are taken on is one: it can be exported, and it teaches something."""

from pathlib import Path

from archive.store import Store
from benchmarks.trajectories import grow, read


async def test_a_grown_search_is_read_like_any_other(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'archive.db'}"
    search = await grow(url, 60)
    row = await read(url, search, "export")
    assert row["written_bytes"] > 60 * 1000
    assert row["memory_before_mib"] > 0
    assert row["memory_peak_mib"] > row["memory_before_mib"] - 1  # The kernel counts pages in batches.
    await read(url, search, "learn")
    store = await Store.open(url)
    assert sum(entry.successes for entry in await store.knowledge.list()) > 0
    await store.close()
