"""Devices that this release can judge on, and cards of this machine.

Cards are found without torch and CUDA, by their names from the driver's own tool.
"""

import re
import subprocess
from pathlib import Path

from service.errors import InvalidInput
from workers.protocol import Device, device_of_card
from workers.targets import TARGETS

LIST_CARDS = ("nvidia-smi", "-L")
LIST_S = 20.0
"""Seconds for the list; it takes one, and more if the driver is not kept loaded."""
DRIVER_FILES = Path("/proc/driver/nvidia/gpus")
"""Folder with the driver's description of each card, in a folder named by its bus id."""


def require_judgeable(device: Device, field: str) -> None:
    """Require that this release can judge on a device, on some machine.

    Raises:
        InvalidInput: If it cannot; names the devices that it can judge on.
    """
    if device.target not in TARGETS:
        raise InvalidInput(f"'{device.target}' is not a known target; known: {', '.join(TARGETS)}", field)
    if device.kind != "model" and TARGETS[device.target].vendor != "nvidia":
        raise InvalidInput(
            f"this release cannot judge on {device.name}; it measures on NVIDIA cards, such as h200, reads recordings "
            "of them, such as recorded:h200, and predicts for model:<target>",
            field,
        )


def local_cards(driver_files: Path = DRIVER_FILES) -> tuple[str, ...]:
    """Return the names of this machine's cards by bus id, the order in which `cuda:N` counts them."""
    try:
        listed = subprocess.run(LIST_CARDS, capture_output=True, text=True, timeout=LIST_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        described = [path.read_text() for path in sorted(driver_files.glob("*/information"))]
        return tuple(name for text in described for name in re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE))
    return tuple(re.findall(r"^GPU \d+: (.+?) \(UUID: ", listed, re.MULTILINE))


def find_card(device: Device) -> int | None:
    """Return the number of this machine's first card of a hardware class; None without one."""
    return next((number for number, name in enumerate(local_cards()) if device_of_card(name) == device), None)
