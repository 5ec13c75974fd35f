"""The base of every wire type: frozen, closed to unknown fields, JSON only."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

PROTOCOL_VERSION = 4
"""Raised whenever the meaning of a plan, a check or a figure changes; reports of another version are never reused.

2: seals, feints, decoys, stand-ins for NaN, tolerances for clamps and outliers, 24 KiB of local memory, three clocks,
tighter controls, floors by operations, an environment that nothing sways, finalists beyond 2^31.
3: on `model` what the compiler evaluates twice is evaluated twice, and more kernels are interpretable.
4: floors by the card's own theoretical peaks at its highest clocks, in place of those of its target's common card.
"""

NON_FINITE = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""Spelling of the numbers that JSON lacks (`ser_json_inf_nan` below)."""


def printable(text: str) -> str:
    """A text without what could steer a terminal; lines stay lines."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


class WireModel(BaseModel):
    """A value that crosses a process border as JSON. Frozen; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def plain(self) -> dict[str, Any]:
        """Return the value as its JSON text parses: infinities are spelled out, which `model_dump` does not do."""
        parsed: dict[str, Any] = json.loads(self.model_dump_json())
        return parsed


def check_protocol(version: int) -> int:
    """A version of the protocol, if it is ours.

    Raises:
        ValueError: If it is another, whose plans, checks and figures mean something else; says which.
    """
    if version != PROTOCOL_VERSION:
        raise ValueError(f"it follows protocol {version}, and here protocol {PROTOCOL_VERSION} is followed")
    return version


Ours = Annotated[int, AfterValidator(check_protocol)]
"""The protocol of a job. One of another checkout, left in the queue, cannot be read, and is sent again as ours."""


def _read_constant(value: object) -> object:
    return NON_FINITE.get(value, value) if isinstance(value, str) else value


Constant = Annotated[bool | int | float | str | None, BeforeValidator(_read_constant)]
"""A Python constant. Text that spells a non-finite number is read as that number, so that it survives JSON."""
