"""The ptxas builds of this host: those of the installed Triton, and those that it keeps of other releases.

A plan names the build that assembles it. A host assembles with exactly that one, or not at all.
"""

import hashlib
import re
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from triton.backends.nvidia.compiler import get_ptxas

from workers.errors import ToolMissing
from workers.options import cache_home
from workers.protocol import PtxasTool, Toolchain
from workers.targets import Target

_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_NEWEST = 100
# Triton has two builds: one for all targets up to a capability that its releases differ in, one for the others.


def kept_tools() -> Path:
    """Return the folder of kept builds: each in a folder of its digest, under its own name."""
    return cache_home() / "ptxas"


def toolchain_of(target: Target) -> Toolchain:
    """Return the toolchain of this process for a target.

    Raises:
        ToolMissing: If the installed Triton has no ptxas for it.
    """
    ptxas = own_tool(_capability(target))[0] if target.vendor == "nvidia" else None
    return Toolchain(triton=version("triton"), ptxas=ptxas)


@cache
def own_tool(capability: int) -> tuple[PtxasTool, str]:
    """Return the build that the installed Triton takes for a compute capability, such as 90, and its path.

    Raises:
        ToolMissing: If there is none.
    """
    tool = get_ptxas(capability)
    if tool is None:
        raise ToolMissing(f"the installed Triton has no ptxas for sm_{capability}")
    path = Path(tool.path)
    version = _said_version(tool.path) or str(tool.version)
    return PtxasTool(version=version, digest=_digest_of(path, path.stat().st_mtime_ns)), tool.path


def read_own_tools() -> None:
    """Read the builds of the installed Triton once. Forks know them then, and need not each read 60 MB again."""
    for capability in (0, _NEWEST):
        with suppress(ToolMissing):
            own_tool(capability)


def path_of(tool: PtxasTool | None, target: Target) -> str:
    """Return the path of a build on this host; None is the installed Triton's for the target.

    Raises:
        ToolMissing: If this host does not have it; says how to keep it.
    """
    if tool is None:
        return own_tool(_capability(target))[1]
    for capability in (_capability(target), 0, _NEWEST):
        found, path = own_tool(capability)
        if found.digest == tool.digest:
            return path
    kept = next(iter(sorted((kept_tools() / tool.digest).glob("ptxas*"))), None)
    if kept is None:
        raise ToolMissing(
            f"the plan's ptxas {tool.version} ({tool.digest[:12]}) is not on this host: keep it with "
            "`python -m workers keep-ptxas VERSION`, the version of the Triton that traces"
        )
    if _digest_of(kept, kept.stat().st_mtime_ns) != tool.digest:
        raise ToolMissing(f"{kept} is not the ptxas that its folder names")
    return str(kept)


def _capability(target: Target) -> int:
    return target.capability[0] * 10 + target.capability[1]


@cache
def _said_version(path: str) -> str:
    """Return the version that a build says; empty if it says none."""
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = _VERSION.search(said)
    return found[1] if found else ""


@cache
def _digest_of(path: Path, modified_ns: int) -> str:
    """Return the digest of a file that was modified last at a time, nanoseconds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
