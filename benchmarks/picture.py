"""Draw what a search found, as a terminal shows it: `docs/pictures/<operator>.svg`.

python -m benchmarks.picture            the newest search of this machine's archive
"""

import asyncio
import sys
from pathlib import Path

from rich.console import Console

from archive.store import Store
from service.api.builders import archive_of
from service.cli.heat_map import elite_table, heat_map
from service.settings import Settings

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


async def draw(search_id: str | None) -> Path:
    """Draw one search; returns the picture's path."""
    store = await Store.open(Settings().database)
    try:
        search = await store.searches.get(search_id) if search_id else (await store.searches.list(limit=1))[0]
        elites = await store.elites.list(search.id, search.devices[0], search.axes_version)
    finally:
        await store.close()
    console = Console(record=True, width=110, quiet=False)
    archive = archive_of(search, search.devices[0], elites)
    console.print(heat_map(archive))
    console.print(elite_table(archive, limit=6))
    PICTURES.mkdir(exist_ok=True)
    path = PICTURES / f"{search.operator_name}.svg"
    console.save_svg(str(path), title=f"reef search {search.operator_name}")
    return path


if __name__ == "__main__":
    print(asyncio.run(draw(sys.argv[1] if len(sys.argv) > 1 else None)))
