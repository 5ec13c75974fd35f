"""Toolchains: the compiler and the assembler that a bundle's kernels come from."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from workers.protocol.base import WireModel

Release = Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]{1,2}$")]
"""Release of Triton, such as `3.9`: all its versions, 3.9.0 and 3.9.1, have one language and one compiler."""
Version = Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+-]{0,39}$")]
"""Version of a release, such as `3.9.0` or `12.8.93`."""


class PtxasTool(WireModel):
    """One build of ptxas: `digest` is the SHA-256 of its file, `version` that of its release."""

    version: Version
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Toolchain(WireModel):
    """The Triton that compiled a bundle, and the ptxas that assembles it; None where the target has no ptxas."""

    triton: Version
    ptxas: PtxasTool | None = None

    @property
    def release(self) -> str:
        """Release of its Triton."""
        return release_of(self.triton)

    @property
    def versions(self) -> dict[str, str]:
        """Versions as reports name them."""
        if self.ptxas is None:
            return {"triton": self.triton}
        return {"triton": self.triton, "ptxas": f"{self.ptxas.version} ({self.ptxas.digest[:12]})"}


def release_of(version: str) -> str:
    """Return the release of a version of Triton: `3.9` of `3.9.0`; empty if it names none."""
    found = re.match(r"\d{1,2}\.\d{1,2}(?![0-9])", version)
    return found[0] if found else ""


def is_before(release: str, other: str) -> bool:
    """Return True if a release is older than another: 3.8 than 3.10."""
    return _numbers(release) < _numbers(other)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def compiled_at(place: str, compiler: str | None) -> str:
    """Return the place of jobs that need a compiler, such as `sm_90/triton-3.9`; the place itself if any will do."""
    return f"{place}/triton-{compiler}" if compiler else place


def described_place(place: str) -> str:
    """Return a place in words, such as `sm_90 with Triton 3.9`."""
    name, _, release = place.partition("/triton-")
    return f"{name} with Triton {release}" if release else name


def describe_compiler(versions: Mapping[str, str]) -> str:
    """Return the compiler that a report names, such as `Triton 3.9.0, ptxas 13.4.59`; empty if it names none."""
    named = {"triton": "Triton", "ptxas": "ptxas"}
    return ", ".join(f"{word} {versions[name].partition(' ')[0]}" for name, word in named.items() if name in versions)
