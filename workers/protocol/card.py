"""Cards: the hardware class of an NVIDIA card by its driver's name, and its sheet of facts from the driver.

A class is what measured figures are compared within, so two products never share one. It is the product's name in
lower case: `rtx4090`, `a10`, `h100pcie`, `rtx3080tilaptop`. Memory sizes that the driver names, and those of names that
NVIDIA gave to several products, follow an underscore: `a100sxm4_40gb`, `rtx3080_10gb`. The name also tells the compile
target. Where it does not, as for cards newer than this release, the target follows: `x100_sm130`.

A power limit is no part of the class: candidate and rival are timed side by side on one card.
"""

import difflib
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from workers.protocol.base import WireModel, printable

LEAST_CAPABILITY = (8, 0)
"""Lowest compute capability that is judged on: bfloat16 and asynchronous copies begin there."""
FAMILIES = {
    "sm_80": r"a100x?|a800|a30x?|cmp170hx",
    "sm_86": r"rtx30[5-9]0|rtx2050|mx570|rtxa\d+|a2|a10[gm]?|a16|a40",
    "sm_87": r"orin",
    "sm_89": r"rtx40[5-9]0|rtx\d+(sff)?ada|l2|l4|l20|l40[sg]?",
    "sm_90": r"h20|h100|h200|h800|gh200",
    "sm_100": r"b100|b200|gb200",
    "sm_103": r"b300|gb300",
    "sm_110": r"thor",
    "sm_120": r"rtx50[5-9]0|rtxpro\d+",
    "sm_121": r"gb10",
    "gfx942": r"mi300x",
}
"""Beginnings of class names by compile target, from NVIDIA's table of GPUs by compute capability
(https://developer.nvidia.com/cuda-gpus). A card whose driver says otherwise gets its target in its class."""
TESTED_CLASSES = frozenset(("h100", "h200"))
"""Classes on which the project's own rogues, honest kernels and controls were judged (docs/results.md)."""
SHORT_NAMES = {"a100sxm4_80gb": "a100", "h100_80gb_hbm3": "h100"}
"""Classes with a name shorter than the driver's."""
KNOWN_CLASSES = (
    "a10", "a100", "a100_80gb_pcie", "a100pcie_40gb", "a100sxm4_40gb", "a10g", "a30", "a40", "b200", "gb10",
    "gb200", "h100", "h100nvl", "h100pcie", "h20", "h200", "h200nvl", "l4", "l40", "l40s", "rtx3060_12gb", "rtx3070",
    "rtx3080_10gb", "rtx3090", "rtx3090ti", "rtx4060", "rtx4070", "rtx4080", "rtx4090", "rtx4090d", "rtx5070",
    "rtx5080", "rtx5090", "rtx6000ada", "rtxa4000", "rtxa6000", "rtxpro6000blackwellserver",
    "rtxpro6000blackwellworkstation",
)  # fmt: skip
"""Common classes, to propose where a name looks like a mistake; others are as good."""
SHARED_NAMES = frozenset(
    (
        "orin",
        "rtx3050",
        "rtx3050laptop",
        "rtx3060",
        "rtx3080",
        "rtx3080laptop",
        "rtx4060ti",
        "rtx5060ti",
        "rtxa2000laptop",
        "thor",
    )
)
"""Names that NVIDIA gave to products of several memory sizes, often with other numbers of SMs too."""
MEMORY_GB = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
"""Sizes of memory that products of shared names have; the driver reports a few per cent less."""
NO_PRODUCT = frozenset(("", "device", "graphicsdevice"))
"""Names that the driver gives to cards that it does not know."""

_VENDOR = frozenset(["nvidia", "geforce", "generation", "edition", "gpu", "tesla", "quadro", "grid", "nvgpu"])
_VIRTUAL = re.compile(r"\d+[abcq]")
"""Last word of the names of virtual cards (NVIDIA vGPU): memory in GB and a letter for the licence."""
_SIZE = re.compile(r"\d+gb?")
_FAMILY = {target: re.compile(rf"(?:{pattern})(?!\d)") for target, pattern in FAMILIES.items()}
_CLASS = re.compile(r"[a-z][a-z0-9_]*")
_TARGETED = re.compile(r"(?P<name>[a-z][a-z0-9_]*)_sm(?P<arch>\d{2,3})")
_GIB = 2**30

Figure = Annotated[int, Field(gt=0, le=2**60)]
"""Size, count or rate of a card. Pages divide by them, and a worker that nobody trusts may send any."""


class CardSheet(WireModel):
    """Facts of one card as its driver reports them; None where it does not.

    Attributes:
        name: The driver's name of the card.
        capability: Compute capability, such as `8.9`.
        sms: Number of streaming multiprocessors.
        clock_mhz: Highest clock of the SMs. The rated boost clock is lower on many cards and does not count.
        memory_clock_mhz: Highest clock of the memory.
        bus_bits: Width of the memory's bus.
        memory_bytes: Size of the memory.
        l2_bytes: Size of the L2 cache.
        shared_block_bytes: Maximum shared memory per program.
        shared_sm_bytes: Shared memory per SM.
        registers_sm: 32-bit registers per SM.
        threads_sm: Maximum number of resident threads per SM.
    """

    name: Annotated[str, Field(max_length=256), AfterValidator(printable)]
    capability: Annotated[str, Field(pattern=r"^[1-9][0-9]?\.[0-9]$")]
    sms: Figure
    clock_mhz: Figure | None = None
    memory_clock_mhz: Figure | None = None
    bus_bits: Figure | None = None
    memory_bytes: Figure
    l2_bytes: Figure
    shared_block_bytes: Figure
    shared_sm_bytes: Figure
    registers_sm: Figure
    threads_sm: Figure

    @property
    def product(self) -> str:
        """Facts in which two products of one name differ, in words. They do not depend on settings of the driver."""
        return f"{self.sms} SMs and a memory bus of {self.bus_bits or 'unknown'} bits"

    @property
    def device_class(self) -> str | None:
        """Hardware class of the card; None if it has none."""
        major, minor = map(int, self.capability.split("."))
        return class_of_card(self.name, (major, minor), self.memory_bytes)


def class_of_card(name: str, capability: tuple[int, int] | None = None, memory_bytes: int | None = None) -> str | None:
    """Return the hardware class of an NVIDIA card.

    Args:
        name: The driver's name of the card.
        capability: Its compute capability; that of its family if None.
        memory_bytes: Size of its memory; only needed for names that several products share.

    Returns:
        The class. None for a slice of a card (MIG, vGPU), whose neighbours share its memory or power; for a card below
        compute capability 8.0; and for a card whose name does not tell the product.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if (
        "mig" in words
        or _VIRTUAL.fullmatch(words[-1] if words else "")
        or (capability is not None and capability < LEAST_CAPABILITY)
    ):
        return None
    found = _joined([word for word in words if word not in _VENDOR])
    if found in NO_PRODUCT or not _CLASS.fullmatch(found) or (found in SHARED_NAMES and memory_bytes is None):
        return None
    if found in SHARED_NAMES and memory_bytes is not None:
        found = f"{found}_{_nominal_gb(memory_bytes)}gb"
    family = _family_of(found)
    target = family if capability is None else f"sm_{capability[0]}{capability[1]}"
    if target is None:
        return None
    return SHORT_NAMES.get(found, found) if target == family else f"{found}_{target.replace('_', '')}"


def target_of_class(name: str) -> str | None:
    """Return the compile target of a hardware class; None if its name does not tell one."""
    targeted = _TARGETED.fullmatch(name)
    return f"sm_{targeted['arch']}" if targeted else _family_of(name)


def plain_class(name: str) -> str:
    """Return the one name of a class: short, and without a target that the rest tells anyway."""
    targeted = _TARGETED.fullmatch(name)
    if targeted and _family_of(targeted["name"]) == f"sm_{targeted['arch']}":
        name = targeted["name"]
    return SHORT_NAMES.get(name, name)


def similar_classes(name: str) -> list[str]:
    """Return known classes whose names look like this one, the most similar first."""
    return difflib.get_close_matches(name.lower(), KNOWN_CLASSES, n=3)


def _joined(words: list[str]) -> str:
    """Join words; an underscore stands beside memory sizes and between digits."""
    found = ""
    for word, before in zip(words, ["", *words], strict=False):
        apart = _SIZE.fullmatch(word) or _SIZE.fullmatch(before) or (before[-1:].isdigit() and word[0].isdigit())
        found += f"_{word}" if found and apart else word
    return found


def _family_of(name: str) -> str | None:
    return next((target for target, pattern in _FAMILY.items() if pattern.match(name)), None)


def _nominal_gb(memory_bytes: int) -> int:
    """Return the size that the product is sold with, which the driver and the firmware use a part of."""
    return next((size for size in MEMORY_GB if size * _GIB >= memory_bytes), round(memory_bytes / _GIB))
