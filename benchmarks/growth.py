"""What the archive's calls cost with a million candidates, on SQLite and on PostgreSQL.

`benchmarks.archive` says what is grown, and how it is measured.

    python -m benchmarks.growth --sizes 10000,100000,1000000
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.archive import run
from benchmarks.cluster import PostgresServer
from benchmarks.record import write


async def grow(folder: Path, sizes: list[int], database: str) -> list[dict[str, Any]]:
    """Rows of one database, one a size and call."""
    if database == "sqlite":
        return await run(f"sqlite+aiosqlite:///{folder / 'archive.db'}", sizes, 0)
    server = PostgresServer(folder / "postgres", "127.0.0.1")
    server.start()
    try:
        return await run(server.url, sizes, 0)
    finally:
        server.kill()


def main() -> None:
    """Run and write `results/growth.json`, after each database."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="10000,100000,1000000", help="candidates at which to measure, ascending")
    options.add_argument("--databases", default="sqlite,postgresql")
    chosen = options.parse_args()
    load = round(os.getloadavg()[0], 1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="reef-growth-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        sizes = [int(size) for size in chosen.sizes.split(",")]
        for database in chosen.databases.split(","):
            rows += asyncio.run(grow(folder, sizes, database))
            print(write("growth", rows, load_average_before=load))


if __name__ == "__main__":
    main()
