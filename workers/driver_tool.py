"""The driver's own tool, `nvidia-smi`: highest clocks, which the CUDA driver does not tell, and memory in use."""

import subprocess
from dataclasses import dataclass

from workers.protocol import CardSheet

ASK_S = 60.0
"""Seconds for an answer; on a host that has just started the tool loads the driver."""


@dataclass(frozen=True)
class MaximumClocks:
    """Highest clocks of a card in MHz; None where the tool does not tell.

    Attributes:
        sm: Of the SMs.
        memory: Of the memory.
    """

    sm: int | None = None
    memory: int | None = None

    def added_to(self, sheet: CardSheet) -> CardSheet:
        """Return a sheet with these clocks; the higher one counts where the driver tells a clock of the memory too."""
        memory = max(self.memory or 0, sheet.memory_clock_mhz or 0) or None
        return sheet.model_copy(update={"clock_mhz": self.sm, "memory_clock_mhz": memory})


def maximum_clocks(address: str) -> MaximumClocks:
    """Ask for the highest clocks of the card at an address on the bus."""
    clocks = _asked(address, "clocks.max.sm,clocks.max.memory")
    return MaximumClocks(*clocks) if len(clocks) == 2 else MaximumClocks()


def used_bytes(address: str) -> int | None:
    """Ask for the memory in use on the card at an address on the bus, by any program; None if the tool does not tell.

    The tool tells whole MiB.
    """
    (used, *_) = _asked(address, "memory.used") or [None]
    return None if used is None else used * 2**20


def _asked(address: str, fields: str) -> list[int | None]:
    """Return the tool's figures for a card by comma-separated fields; nothing if it fails."""
    command = ("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", address)
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_whole(part.strip()) for part in answer.split(",")]


def _whole(text: str) -> int | None:
    return int(text) or None if text.isdecimal() else None
