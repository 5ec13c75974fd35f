"""Devices, as named in specs, archive and reports: a hardware class, and the provenance of times."""

import re
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import model_serializer, model_validator

from workers.protocol.base import WireModel
from workers.protocol.card import (
    SHARED_NAMES,
    TESTED_CLASSES,
    class_of_card,
    plain_class,
    similar_classes,
    target_of_class,
)


class Device(WireModel):
    """A hardware class (`h200`), a model of a target (`model:sm_90`) or a recording (`recorded:h200`).

    On the wire it is its name, a plain string.
    """

    kind: Literal["cuda", "model", "recorded"]
    subject: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return cls._split(value) if isinstance(value, str) else value

    @staticmethod
    def _split(name: str) -> dict[str, str]:
        kind, _, subject = name.rpartition(":")
        if kind not in ("", "model", "recorded") or not re.fullmatch(r"[a-z0-9_]{1,64}", subject):
            raise ValueError(
                f"'{name}' is no device; write a hardware class (h200), model:<target> or recorded:<class>"
            )
        if kind != "model":
            subject = plain_class(subject)
            if subject in SHARED_NAMES:
                raise ValueError(f"several products are called {subject}; add the memory size, as in rtx3080_10gb")
            if target_of_class(subject) is None:
                raise ValueError(_no_class(subject))
        return {"kind": kind or "cuda", "subject": subject}

    @model_serializer
    def _to_name(self) -> str:
        return self.name

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a device's name.

        Raises:
            ValueError: If the name is not a device; the message lists valid names.
        """
        return cls.model_validate(cls._split(name))

    @property
    def name(self) -> str:
        """Name of the device in specs, archive and reports."""
        return self.subject if self.kind == "cuda" else f"{self.kind}:{self.subject}"

    @property
    def measures(self) -> bool:
        """True if times are measured and so vary: candidates are paced, and promotions confirmed."""
        return self.kind == "cuda"

    @property
    def is_tested(self) -> bool:
        """True if it does not measure, or the project itself has judged on this hardware class."""
        return not self.measures or self.subject in TESTED_CLASSES

    @property
    def traced_at(self) -> str:
        """Place where its candidates are traced: its target, or the recording itself, which needs no compiler."""
        return self.name if self.kind == "recorded" else self.target

    @property
    def target(self) -> str:
        """The compile target, such as `sm_90`."""
        return self.subject if self.kind == "model" else target_of_class(self.subject) or ""


@dataclass(frozen=True)
class CardShare:
    """An executor's share of a card of this machine: `cuda:0`, or `cuda:0/3` if three executors share the card.

    Attributes:
        card: Number of the card.
        sharers: Number of executors that share it.
    """

    card: int = 0
    sharers: int = 1

    @classmethod
    def parse(cls, name: str) -> "CardShare":
        """Read the name of a share.

        Raises:
            ValueError: If the name is invalid; the message shows valid ones.
        """
        found = re.fullmatch(r"cuda:(\d{1,4})(?:/([1-9]\d?))?", name, re.ASCII)
        if found is None:
            raise ValueError(f"'{name}' is no card; the first one is cuda:0, and cuda:0/3 has three benches share it")
        return cls(int(found[1]), int(found[2] or 1))

    def __str__(self) -> str:
        return f"cuda:{self.card}" if self.sharers == 1 else f"cuda:{self.card}/{self.sharers}"


FIRST_CARD = CardShare()
"""The first card of a machine, not shared."""


def device_of_card(
    name: str, capability: tuple[int, int] | None = None, memory_bytes: int | None = None
) -> Device | None:
    """Return the hardware class of a card as a device, or None if it has none; `class_of_card` has the rules."""
    found = class_of_card(name, capability, memory_bytes)
    return None if found is None else Device.parse(found)


def _no_class(name: str) -> str:
    """Explain that a name tells no product, and propose some that do."""
    similar = similar_classes(name)
    advice = f"did you mean {' or '.join(similar)}?" if similar else "classes are called like h200, a10 or rtx4090"
    return f"'{name}' is no class of NVIDIA cards of compute capability 8.0 or more; {advice}"
