"""Toolchains: the compiler and the assembler that a bundle's kernels come from."""

from typing import Annotated

from pydantic import Field

from workers.protocol.base import WireModel

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
    def versions(self) -> dict[str, str]:
        """Versions as reports name them."""
        if self.ptxas is None:
            return {"triton": self.triton}
        return {"triton": self.triton, "ptxas": f"{self.ptxas.version} ({self.ptxas.digest[:12]})"}
