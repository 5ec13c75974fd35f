"""`python -m workers keep-ptxas`: keep the ptxas builds of other Triton releases on this host.

It reads wheels as archives, or folders of installed packages, and installs nothing. A worker assembles plans of those
releases with them.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from workers.errors import ToolMissing
from workers.options import cache_home
from workers.safe_python import PYTHON

_MEMBER = re.compile(r"triton/backends/nvidia/bin/(ptxas[a-z-]*)")


def keep(releases: Sequence[str], folder: Path | None = None) -> int:
    """Keep the builds of some releases. Returns the exit status.

    Args:
        releases: Versions such as 3.9.0, paths of wheels, or folders in which Triton is installed.
        folder: Folder of kept builds; by default the one that workers of this user look in.
    """
    folder = folder or cache_home() / "ptxas"
    try:
        for release in releases:
            for name, digest in _keep(release, folder):
                sys.stdout.write(f"{release}: {name} {digest}\n")
    except ToolMissing as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


def _keep(release: str, folder: Path) -> list[tuple[str, str]]:
    if release.endswith(".whl"):
        return _extract(Path(release), folder)
    if Path(release).is_dir():
        builds = sorted(Path(release).glob("triton/backends/nvidia/bin/ptxas*"))
        return _kept(release, ((path.name, path.read_bytes()) for path in builds), folder)
    with tempfile.TemporaryDirectory() as room:
        command = [*PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*command, "--dest", room, f"triton=={release}"], check=False)
        wheels = list(Path(room).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise ToolMissing(f"pip found no wheel of Triton {release} for this machine")
        return _extract(wheels[0], folder)


def _extract(wheel: Path, folder: Path) -> list[tuple[str, str]]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = (_MEMBER.fullmatch(member) for member in archive.namelist())
            return _kept(str(wheel), ((each[1], archive.read(each[0])) for each in found if each), folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise ToolMissing(f"{wheel} cannot be read: {error}") from error


def _kept(release: str, builds: Iterable[tuple[str, bytes]], folder: Path) -> list[tuple[str, str]]:
    """Write builds, each to a folder of its digest. Returns their names and digests."""
    kept = []
    for name, content in builds:
        digest = hashlib.sha256(content).hexdigest()
        if not (folder / digest).is_dir():
            _write(folder / digest, name, content)
        kept.append((name, digest))
    if not kept:
        raise ToolMissing(f"{release} has no ptxas")
    return kept


def _write(place: Path, name: str, content: bytes) -> None:
    """Write one build, whole or not at all: others may look for it meanwhile."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as room:
        new = Path(room) / place.name
        new.mkdir()
        (new / name).write_bytes(content)
        (new / name).chmod(0o755)
        if not place.is_dir():
            new.rename(place)
