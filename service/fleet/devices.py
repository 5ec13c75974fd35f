"""Devices that this release can judge on, and cards of this machine.

Cards are found without torch and CUDA, by their names from the driver's own tool.
"""

import re
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shutil import which
from threading import Lock

from service.errors import InvalidInput
from workers.protocol import Device, device_of_card
from workers.targets import TARGETS

LIST_CARDS = (
    "nvidia-smi",
    "--query-gpu=name,compute_cap,memory.total,mig.mode.current",
    "--format=csv,noheader,nounits",
)
LIST_S = 20.0
"""Seconds for the list; it takes one, and more if the driver is not kept loaded."""
DRIVER_FILES = Path("/proc/driver/nvidia/gpus")
"""Folder with the driver's description of each card, in a folder named by its bus id."""

BENCH_MEMORY_BYTES = 24 * 2**30
"""Card memory per worker that measures. A sixth of it is the arena of a usual job, in which a round of timing has its
slots. A plan that needs more than half of it gets nearly half of the card, one at a time."""
BENCH_CORES = 5
"""Cores per worker that measures: its executor and runner use one each, and half an oracle. The others assemble its
kernels, and trace the candidates that it will measure next."""
MOST_BENCHES = 3
"""Maximum workers that share a card by default: one oracle looks at all their runs. On H100s and H200s three made up to
1.7 times as many verdicts per hour as one (docs/results/throughput.md); more were not measured in full."""

_LISTING = Lock()
# Held while the driver's tool runs.
CARD_NAME = re.compile(r"cuda(:\d{1,4})?", re.ASCII)
DEVICES = "devices"
"""Field of a request that names devices."""
NO_CARD = "no NVIDIA card on this machine, or no driver (nvidia-smi)"
CLASSLESS = "measuring takes a whole card of compute capability 8.0 or more that its driver knows by name"
MODEL = "model:sm_90"
"""Device that needs no card."""
WITHOUT_CARD = f"--device {MODEL}"
AUTO = "auto"
"""Name for `cuda` where that can be measured on, and for `MODEL` elsewhere."""


@dataclass(frozen=True)
class LocalCard:
    """A card of this machine: its number, the driver's name, its hardware class if it has one, and its memory.

    The memory is 0 if the driver's tool does not say it.
    """

    number: int
    name: str
    device: Device | None
    memory_bytes: int = 0

    def __str__(self) -> str:
        return f"cuda:{self.number} is {self.device.name if self.device else f'{self.name!r}, without a class'}"


def require_judgeable(device: Device, field: str) -> None:
    """Require that this release can judge on a device, on some machine.

    Raises:
        InvalidInput: If it cannot; names the devices that it can judge on.
    """
    if device.target not in TARGETS:
        raise InvalidInput(f"this release compiles nothing for '{device.target}'; known: {', '.join(TARGETS)}", field)
    if device.kind != "model" and TARGETS[device.target].vendor != "nvidia":
        raise InvalidInput(
            f"this release cannot judge on {device.name}; it measures on NVIDIA cards, such as h200, reads recordings "
            "of them, such as recorded:h200, and predicts for model:<target>",
            field,
        )


def local_cards(driver_files: Path = DRIVER_FILES) -> tuple[LocalCard, ...]:
    """Return this machine's cards by bus id, the order in which `cuda:N` counts them."""
    try:
        tool = which(LIST_CARDS[0]) or LIST_CARDS[0]
        listed = _listed(tool, Path(tool).stat().st_mtime_ns)
    except (OSError, subprocess.SubprocessError):
        described = [path.read_text() for path in sorted(driver_files.glob("*/information"))]
        names = [name for text in described for name in re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE)]
        return tuple(LocalCard(number, name, device_of_card(name)) for number, name in enumerate(names))
    rows = [[part.strip() for part in line.rsplit(",", 3)] for line in listed.splitlines()]
    return tuple(_card(number, *row) for number, row in enumerate(row for row in rows if len(row) == 4))


def _listed(tool: str, changed_ns: int) -> str:
    """Return the cards in the words of the driver's tool; a second caller waits for the answer to the first."""
    with _LISTING:
        return _list(tool, changed_ns)


@lru_cache(maxsize=1)
def _list(tool: str, _changed_ns: int) -> str:
    """List the cards; a list is kept, because the tool may take seconds."""
    command = (tool, *LIST_CARDS[1:])
    return subprocess.run(command, capture_output=True, text=True, timeout=LIST_S, check=True).stdout


def find_card(device: Device) -> LocalCard | None:
    """Return this machine's first card of a hardware class; None without one."""
    return next((card for card in local_cards() if card.device == device), None)


def benches_for(card: LocalCard, cores: int) -> int:
    """Return the number of workers to share a card: as many as its memory and the cores suffice for.

    A worker that measures prepares and checks most of the time, and times alone for the rest.
    """
    return max(1, min(card.memory_bytes // BENCH_MEMORY_BYTES, cores // BENCH_CORES, MOST_BENCHES))


def describe_cards(cards: Sequence[LocalCard]) -> str:
    """List cards with their classes, such as `here: cuda:0 is h100`."""
    return f"here: {', '.join(map(str, cards))}" if cards else NO_CARD


def card_named(name: str, cards: Sequence[LocalCard], field: str) -> Device:
    """Return the hardware class of `cuda`, the first of some cards, or of `cuda:N`.

    Raises:
        InvalidInput: If there is no such card, or it has no class; names the cards.
    """
    number = int(name.partition(":")[2] or 0)
    if not cards:
        raise InvalidInput(f"{name}: {NO_CARD}; without a card use {WITHOUT_CARD}", field)
    if number >= len(cards):
        raise InvalidInput(f"{name}: there is no such card; {describe_cards(cards)}", field)
    device = cards[number].device
    if device is None:
        raise InvalidInput(f"{cards[number]}; {CLASSLESS}", field)
    return device


def choose_devices(
    names: Sequence[str], *, cards: Sequence[LocalCard], served: Collection[str], closed: bool
) -> list[Device]:
    """Return the devices that a search names; `cuda` is the one hardware class that can be measured on.

    Args:
        names: Names as somebody wrote them.
        cards: Cards of this machine that its own workers use.
        served: Names of devices that a living worker judges on.
        closed: True if no other machine's workers can join, so that a card which is not here never comes.

    Raises:
        InvalidInput: If a name is no device, means several, or nothing here can judge on it.
    """
    return list(dict.fromkeys(_chosen(name, cards, served, closed=closed) for name in names))


def _chosen(name: str, cards: Sequence[LocalCard], served: Collection[str], *, closed: bool) -> Device:
    if name == AUTO:
        try:
            return _chosen("cuda", cards, served, closed=closed)
        except InvalidInput:
            return Device.parse(MODEL)
    if not names_card(name):
        device = read_device(name, DEVICES)
        here = {card.device for card in cards}
        if closed and device.measures and device not in here and device.name not in served:
            raise InvalidInput(f"{name}: no worker has this card; {describe_cards(cards)}", DEVICES)
        return device
    if closed or ":" in name:
        return card_named(name, cards, DEVICES)
    return class_served(name, {*served, *(card.device.name for card in cards if card.device)}, DEVICES)


def class_served(name: str, served: Collection[str], field: str) -> Device:
    """Return the one hardware class among devices that workers judge on.

    Raises:
        InvalidInput: If there is none, or several; names them.
    """
    classes = [device for device in map(Device.parse, sorted(served)) if device.measures]
    if not classes:
        raise InvalidInput(f"{name}: no worker of this service has a card; without a card use {WITHOUT_CARD}", field)
    if len(classes) > 1:
        found = ", ".join(device.name for device in classes)
        raise InvalidInput(f"{name}: the workers of this service have several cards; name one: {found}", field)
    return classes[0]


def names_card(name: str) -> bool:
    """Return True if a device's name is for a card of this machine: `cuda`, `cuda:N` or `auto`."""
    return name == AUTO or CARD_NAME.fullmatch(name) is not None


def may_measure(name: str) -> bool:
    """Return True if a name may be a hardware class or a card: it has no kind such as `model:` before it."""
    return ":" not in name or names_card(name)


def read_device(name: str, field: str) -> Device:
    """Return a device by its name, or by the name of a card of this machine.

    Raises:
        InvalidInput: If it is none, or nothing can judge on it.
    """
    if names_card(name):
        return card_named(name, local_cards(), field)
    try:
        device = Device.parse(name)
    except ValueError as error:
        raise InvalidInput(str(error), field) from error
    require_judgeable(device, field)
    return device


def _card(number: int, name: str, capability: str, memory_mib: str, mig: str) -> LocalCard:
    """Read a card from the tool's words; one that is divided (MIG) has no class."""
    parts = re.fullmatch(r"(\d+)\.(\d+)", capability)
    known = None if parts is None else (int(parts[1]), int(parts[2]))
    memory = int(memory_mib) * 2**20 if memory_mib.isdecimal() else None
    return LocalCard(number, name, None if mig == "Enabled" else device_of_card(name, known, memory), memory or 0)
