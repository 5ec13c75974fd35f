"""What crosses the jail's border: a request with inputs, a reply with outputs; a JSON header, then raw bytes."""

import struct
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from workers.protocol import Kernel, Outcome, Plan, WireModel
from workers.protocol.plan import Digest
from workers.protocol.report import Reason

Header = TypeVar("Header", bound=WireModel)

MAX_PARTS = 4096
"""Parts of a message: draws x (inputs + outputs) x plans of the largest honest request stay far below."""

Amount = Annotated[int, Field(ge=0, le=2**60)]

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


class InterpretRequest(WireModel):
    """Execute these plans. The parts are the inputs: for each plan, for each draw, each input of the operator.

    Behind them, for each sampled plan, come `TILE_BYTES` of each input, which it seems to repeat.

    Attributes:
        source: The candidate.
        target: What it was compiled for; decides what `tl.dot` does by default.
        input_names: What faults call the inputs.
        plans: Plans of one variant, executed in this order until one fails.
        draws: Copies of the inputs, by plan.
        sampled: Plans that are too large to execute; a few programs tell how many bytes they move.
        sample_seed: Decides which programs and turns do.
        launched: Plans whose kernels must be those that the source gives when it is compiled again.
        kernels: What these launch, by digest.
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
    """What a launch does, or all launches of a plan.

    Attributes:
        moved_bytes: Bytes that active lanes load and store.
        dot_operations: Floating-point operations of matrix products; where float32 is multiplied as TF32 or in parts,
            as many as the matrix unit could do of bfloat16 in that time.
        float_operations: Operations on single floats, reductions left out.
        special_operations: Those of them that a special unit does, or several instructions: exponentials, quotients.
    """

    moved_bytes: Amount
    dot_operations: Amount = 0
    float_operations: Amount = 0
    special_operations: Amount = 0


class InterpretReply(WireModel):
    """What happened. The parts, for each finished plan, for each draw: every output, then every input buffer after.

    Attributes:
        outcome: Why the plan after the finished ones did not finish, if one did not.
        reason: A sentence that a person or an LLM can act on.
        line: The candidate's line.
        finished: What each plan did that ran to its end.
        sampled: What each launch of each sampled plan would do, extrapolated; None where that cannot be sampled.
    """

    outcome: Literal[Outcome.OUT_OF_BOUNDS, Outcome.NOT_INTERPRETABLE] | None = None
    reason: Reason = ""
    line: int | None = None
    finished: tuple[MeteredTraffic, ...] = ()
    sampled: tuple[tuple[MeteredTraffic, ...] | None, ...] = ()


def pack(header: WireModel, parts: Sequence[bytes]) -> bytes:
    """Frame a header and its parts."""
    every = [header.model_dump_json().encode(), *parts]
    lengths = b"".join(_LENGTH.pack(len(part)) for part in every)
    return b"".join([_COUNT.pack(len(every)), lengths, *every])


def unpack(message: bytes, kind: type[Header]) -> tuple[Header, list[memoryview]]:
    """Take a message apart.

    Raises:
        ValueError: If the frame does not add up or the header is not of that kind.
    """
    view = memoryview(message)
    if len(view) < _COUNT.size:
        raise ValueError("the message is cut off")
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
        raise ValueError("the message's parts do not add up to its length")
    return kind.model_validate_json(bytes(parts[0])), parts[1:]
