"""Messages into and out of the sandbox: a request with inputs, a reply with outputs; a JSON header, then raw bytes."""

import struct
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from workers.protocol import Kernel, Outcome, Plan, WireModel
from workers.protocol.plan import Digest
from workers.protocol.report import MOST_REMARKS, Reason

Header = TypeVar("Header", bound=WireModel)

MAX_PARTS = 2**22
"""Maximum parts of a message, above draws x (inputs + outputs) x plans of the largest honest request: 9 x 720 x 256."""

Amount = Annotated[int, Field(ge=0, le=2**60)]

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


class InterpretRequest(WireModel):
    """Request to execute plans. Its parts are the inputs: for each plan, for each draw, each input of the operator.

    They are followed, for each sampled plan, by a tile of `TILE_BYTES` for each input, which the input repeats, or by
    all of an input whose order matters.

    Attributes:
        source: The candidate.
        target: The target that it was compiled for; it decides the default precision of `tl.dot`.
        input_names: Names of the inputs in faults.
        plans: Plans of one variant, executed in this order until one fails.
        draws: Number of copies of the inputs, by plan.
        sampled: Plans that are too large to execute; their traffic is estimated from a few programs.
        sample_seed: Seed for the choice of programs and iterations.
        launched: Plans whose kernels must equal those of the recompiled source.
        kernels: Kernels of these plans, by digest.
    """

    source: str
    target: str
    input_names: tuple[str, ...]
    plans: tuple[Plan, ...]
    draws: tuple[int, ...]
    sampled: tuple[Plan, ...] = ()
    sample_seed: str = ""
    launched: tuple[Plan, ...] = ()
    kernels: dict[Digest, Kernel] = {}


class MeteredTraffic(WireModel):
    """Work of a launch, or of all launches of a plan.

    Attributes:
        moved_bytes: Bytes that active lanes load and store.
        dot_operations: Floating-point operations of matrix products. Float32 products as TF32 or in parts count as the
            bfloat16 operations that the matrix unit could do in that time.
        float_operations: Operations on single floats, without reductions.
        special_operations: Those of them that need a special unit or several instructions: exponentials, quotients.
    """

    moved_bytes: Amount
    dot_operations: Amount = 0
    float_operations: Amount = 0
    special_operations: Amount = 0


class InterpretReply(WireModel):
    """Result. Its parts are, for each finished plan, for each draw: every output, then every input buffer afterwards.

    Attributes:
        outcome: Outcome of the first plan that did not finish; None if all did.
        reason: A sentence that a person or an LLM can act on.
        line: The candidate's line.
        finished: Work of each plan that ran to its end.
        sampled: Extrapolated work of each launch of each sampled plan; None if it cannot be sampled.
        note: What else may explain wrong results of the finished plans; empty if nothing does.
        remarks: Dangers of the kernels that only a card would show.
    """

    outcome: Literal[Outcome.OUT_OF_BOUNDS, Outcome.NOT_INTERPRETABLE] | None = None
    reason: Reason = ""
    line: int | None = None
    finished: tuple[MeteredTraffic, ...] = ()
    sampled: tuple[tuple[MeteredTraffic, ...] | None, ...] = ()
    note: Reason = ""
    remarks: tuple[Reason, ...] = Field(default=(), max_length=MOST_REMARKS)


def pack(header: WireModel, parts: Sequence[bytes]) -> bytes:
    """Frame a header and its parts."""
    every = [header.model_dump_json().encode(), *parts]
    lengths = b"".join(_LENGTH.pack(len(part)) for part in every)
    return b"".join([_COUNT.pack(len(every)), lengths, *every])


def unpack(message: bytes, kind: type[Header]) -> tuple[Header, list[memoryview]]:
    """Take a message apart.

    Raises:
        ValueError: If the lengths do not match the message or the header is not of that kind.
    """
    view = memoryview(message)
    if len(view) < _COUNT.size:
        raise ValueError("the message is truncated")
    (count,) = _COUNT.unpack_from(view)
    start = _COUNT.size + count * _LENGTH.size
    if not 1 <= count <= MAX_PARTS or len(view) < start:
        raise ValueError(f"the message claims {count} parts")
    parts = []
    for index in range(count):
        (length,) = _LENGTH.unpack_from(view, _COUNT.size + index * _LENGTH.size)
        parts.append(view[start : start + length])
        start += length
    if start != len(view):
        raise ValueError("the lengths of the message's parts do not match its length")
    return kind.model_validate_json(bytes(parts[0])), parts[1:]
