"""Header of every committed figure: machine, versions, date and the command that makes it again."""

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("kernelreef", "torch", "triton", "numpy", "sqlalchemy", "redis", "pydantic")


def machine() -> dict[str, Any]:
    """The processor, its cores that we may use, memory in GiB, the kernel."""
    listing = Path("/proc/cpuinfo")
    info = listing.read_text().splitlines() if listing.exists() else []
    names = (line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    model = next(names, platform.processor())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "gpu": None,
        "load_average": round(os.getloadavg()[0], 1),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of what influences a figure."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


OWN_FOLDERS = {"--out", "--state"}
"""Options whose values are folders of the machine that ran a benchmark."""


def command_line() -> str:
    """Return this process's command, without folders of this machine."""
    arguments = sys.argv[1:]
    told = (each for last, each in zip(["", *arguments], arguments, strict=False) if not OWN_FOLDERS & {last, each})
    return " ".join(["python -m benchmarks." + Path(sys.argv[0]).stem, *told])


def write(name: str, rows: Sequence[Mapping[str, Any]], folder: Path = RESULTS, **more: Any) -> Path:
    """Write `<folder>/<name>.json`; returns its path."""
    document = {
        "machine": machine(),
        "versions": versions(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": command_line(),
        **more,
        "rows": list(rows),
    }
    path = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)  # A run that is killed leaves whole rows.
    return path
