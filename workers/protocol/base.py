"""Base of every wire type: frozen, without unknown fields, JSON only."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

PROTOCOL_VERSION = 6
"""Version that rises whenever the meaning of a plan, check or figure changes; reports of another version are never
reused.

2: checksums after samples, truncated samples, decoys, substitutes for NaN, tolerances for clamps and outliers, 24 KiB
of local memory, three clocks, tighter controls, floors by operations, a fixed environment, finalists beyond 2^31. 3:
`model` devices evaluate an expression twice where the compiler does, and more kernels are interpretable. 4: floors by
the card's own theoretical peaks at its highest clocks. 5: a search's
reference and its mutation testing are two jobs, mutable inputs are judged, mutation testing goes by the errors of
right answers, a seed kernel as the baseline, symbolic plans, tensor descriptors of host code, kernels in Gluon,
tuples as arguments, borders of quantised results, remarks, 704 inputs, recurrent layers as one operation, sizes that
are products and sums of dimensions, times of copies, traces with line information, ordered integers, sizes of 0,
absent inputs, predicted times of checked sources, plans that name their compiler and ptxas, options of launches,
roles of warps, clusters and places of sums among readings, sums that are added one after another, biases decided by
fresh draws, errors from the middle between exact factors and those cut to TF32 where it is allowed, jobs that ask for a
compiler, a flush that writes, jobs that time eager PyTorch alone in few pairs, runs of each compiled kernel that are
repeated, launches that keep products and sums apart, casts without a defined result, quotients as cards compute them.
6: values of `heavy` and `shifted` draws beyond a spec's bounds are mirrored, single float32 elements may lose what
their sums lose, references that round on the way count their losses nearby, the card rests before the rounds of a
confirm, fresh draws decide on few elements and on lucky rows, and few rows of float32 may be off by what each of their
elements may, and by what bounds at nudged inputs allow. The sides of long calls lead in turn, and weights around zero
lie on one side of it in a draw.
"""

NON_FINITE = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
"""Spelling of the numbers that JSON lacks (`ser_json_inf_nan` below)."""


def printable(text: str) -> str:
    """Remove control characters that a terminal would obey; line breaks stay."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


class WireModel(BaseModel):
    """A value that crosses a process border as JSON. Frozen; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def plain(self) -> dict[str, Any]:
        """Return the value as its JSON text parses: infinities are spelled out, which `model_dump` does not do."""
        parsed: dict[str, Any] = json.loads(self.model_dump_json())
        return parsed


def check_protocol(version: int) -> int:
    """Return a protocol version unchanged if it is this checkout's.

    Raises:
        ValueError: If it is another, whose plans, checks and figures mean something else; names both.
    """
    if version != PROTOCOL_VERSION:
        raise ValueError(f"it follows protocol {version}, and here protocol {PROTOCOL_VERSION} is followed")
    return version


Ours = Annotated[int, AfterValidator(check_protocol)]
"""Protocol version of a job. A queued job from another checkout cannot be read, and is sent again with this version."""


def _read_constant(value: object) -> object:
    return NON_FINITE.get(value, value) if isinstance(value, str) else value


Constant = Annotated[bool | int | float | str | None, BeforeValidator(_read_constant)]
"""A Python constant. Text that spells a non-finite number is read as that number, so that it survives JSON."""
