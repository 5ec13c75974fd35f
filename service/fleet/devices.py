"""Devices: which can be judged on at all, and which of them are cards of this machine.

Cards are found without torch and without CUDA: the driver's own tool is asked for their names.
"""

import re
import subprocess
from pathlib import Path

from service.errors import InvalidInput
from workers.protocol import Device, device_of_card
from workers.targets import TARGETS

LIST_CARDS = ("nvidia-smi", "-L")
LIST_S = 20.0
"""Seconds for the list; it takes one, more where the driver is not kept loaded."""
DRIVER_FILES = Path("/proc/driver/nvidia/gpus")
"""Where the driver describes each card, in a folder named by its bus id."""


def require_judgeable(device: Device, field: str) -> None:
    """Refuse a device that this release cannot judge on, whatever machine it runs on.

    Raises:
        InvalidInput: With what it can judge on.
    """
    if device.target not in TARGETS:
        raise InvalidInput(f"'{device.target}' is no target we have a sheet of; known: {', '.join(TARGETS)}", field)
    if device.kind != "model" and TARGETS[device.target].vendor != "nvidia":
        raise InvalidInput(
            f"this release cannot judge on {device.name}; it measures on NVIDIA cards, such as h200, reads recordings "
            "of them, such as recorded:h200, and predicts for model:<target>",
            field,
        )


def local_cards(driver_files: Path = DRIVER_FILES) -> tuple[str, ...]:
    """Names of this machine's cards in the order of their bus ids, which is how `cuda:N` counts them; empty if none."""
    try:
        listed = subprocess.run(LIST_CARDS, capture_output=True, text=True, timeout=LIST_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        described = [path.read_text() for path in sorted(driver_files.glob("*/information"))]
        return tuple(name for text in described for name in re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE))
    return tuple(re.findall(r"^GPU \d+: (.+?) \(UUID: ", listed, re.MULTILINE))


def find_card(device: Device) -> int | None:
    """Number of the first card here that is of a hardware class, or None."""
    return next((number for number, name in enumerate(local_cards()) if device_of_card(name) == device), None)
