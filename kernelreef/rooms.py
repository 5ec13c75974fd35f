"""Imports of Kernelreef's other packages into this process, after a check that nothing hides them.

`service`, `workers` and the others are common names. A folder or file of that name earlier on the path hides ours, and
would run instead.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

ROOMS = ("archive", "workers", "service", "operators", "migrations")
"""Top-level packages of Kernelreef besides this one."""
HOME = Path(__file__).resolve().parents[1]
"""Folder that holds all packages of this installation."""


class HiddenPackage(ImportError):
    """A foreign file or package has the name of one of ours and comes before it on the path."""


def room(name: str) -> ModuleType:
    """Import a module of a room.

    Args:
        name: Full name of the module, such as `service.cli`.

    Raises:
        HiddenPackage: If something else hides a room; names its path.
    """
    hiding = [f"{path} hides {each!r} of Kernelreef" for each in ROOMS if (path := hidden_by(each)) is not None]
    if hiding:
        raise HiddenPackage(f"{'; '.join(hiding)}, which is in {HOME}: rename it, or start Python elsewhere or with -P")
    return importlib.import_module(name)


def hidden_by(room: str) -> Path | None:
    """Return the file or folder that Python finds instead of our room; None if it finds ours."""
    loaded = sys.modules.get(room)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(room)
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec is not None else []
    found = next((Path(place) for place in places if place), None)
    return None if found is None or found.resolve() == HOME / room else found


def leave_current_folder() -> None:
    """Remove the current folder from the path of this process and its children, unless our packages are there."""
    sys.path[:] = [entry for entry in sys.path if _is_ours_or_elsewhere(entry)]
    os.environ["PYTHONSAFEPATH"] = "1"
    if "PYTHONPATH" in os.environ:
        kept = filter(_is_ours_or_elsewhere, os.environ["PYTHONPATH"].split(os.pathsep))
        os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in kept)


def _is_ours_or_elsewhere(entry: str) -> bool:
    folder = Path(entry).resolve()
    return folder != Path.cwd() or folder == HOME


def namesakes(folders: Iterable[Path]) -> Iterator[Path]:
    """Find files and folders that have the name of one of our packages but are not ours.

    Args:
        folders: Folders of a Python path.

    Yields:
        Their paths; programs that import from that folder may not find our packages.
    """
    for folder in dict.fromkeys(each.resolve() for each in folders):
        for name in ("kernelreef", *ROOMS):
            for path in (folder / name, folder / f"{name}.py"):
                if folder != HOME and path.exists():
                    yield path


def other_owners() -> dict[str, list[str]]:
    """Find all installed distributions that own a top-level name of ours, by name."""
    owners = importlib.metadata.packages_distributions()
    others = {name: sorted({*owners.get(name, ())} - {"kernelreef"}) for name in ("kernelreef", *ROOMS)}
    return {name: found for name, found in others.items() if found}
