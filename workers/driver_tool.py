"""The driver's own tool, `nvidia-smi`: it tells the highest clocks, which the CUDA driver does not."""

import subprocess
from dataclasses import dataclass

from workers.protocol import CardSheet

ASK_S = 60.0
"""Seconds for an answer; on a host that has just started the tool loads the driver."""
QUERY = "--query-gpu=clocks.max.sm,clocks.max.memory"


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
    command = ("nvidia-smi", QUERY, "--format=csv,noheader,nounits", "-i", address)
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return MaximumClocks()
    clocks = [_whole(part.strip()) for part in answer.split(",")]
    return MaximumClocks(*clocks) if len(clocks) == 2 else MaximumClocks()


def _whole(text: str) -> int | None:
    return int(text) or None if text.isdecimal() else None
