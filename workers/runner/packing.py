"""Arguments of a launch as bits, the way Triton's own launcher packs them."""

import ctypes
import struct
from collections.abc import Sequence
from math import copysign, inf

from workers.protocol import Launch, Number, Pointer

_HALF_OVERFLOW = 65520.0
# The least number that rounds to infinity in float16.


def pack(launch: Launch, addresses: Sequence[int], scratch: tuple[int, int]) -> list[int]:
    """What a kernel's parameters receive, in order: bits as numbers, of which the lowest count.

    Args:
        launch: Names the arguments.
        addresses: Address of each buffer of the plan.
        scratch: Addresses of the global and the profile scratch, zero for none; they follow the arguments.
    """
    arguments = [
        addresses[argument.buffer] + argument.offset_bytes if isinstance(argument, Pointer) else bits_of(argument)
        for argument in launch.arguments
    ]
    return [*arguments, *scratch]


def bits_of(number: Number) -> int:
    """The bits of a scalar argument."""
    match number.type:
        case "fp64":
            return _bits(bytes(ctypes.c_double(number.value)))
        case "fp32":
            return _bits(bytes(ctypes.c_float(number.value)))
        case "bf16":  # Triton cuts the lower half of a float32 off.
            return _bits(bytes(ctypes.c_float(number.value))[2:])
        case "fp16":
            value = float(number.value)
            return _bits(struct.pack("<e", copysign(inf, value) if abs(value) >= _HALF_OVERFLOW else value))
        case _:
            return int(number.value)


def _bits(data: bytes) -> int:
    return int.from_bytes(data, "little")
