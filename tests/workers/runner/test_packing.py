import struct

import pytest

from workers.driver import LaunchParameters
from workers.protocol import Launch, Number, Pointer
from workers.runner.packing import bits_of, pack


def packed(form: str, value: object) -> int:
    return int.from_bytes(struct.pack(form, value), "little")


@pytest.mark.parametrize(
    ("type", "value", "bits"),
    [
        ("i1", True, 1),
        ("i1", False, 0),
        ("i8", -1, packed("<b", -1)),
        ("i16", -300, packed("<h", -300)),
        ("i32", -(2**31), packed("<i", -(2**31))),
        ("i64", -(2**63), packed("<q", -(2**63))),
        ("u8", 255, 255),
        ("u16", 65535, 65535),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("fp64", 1e300, packed("<d", 1e300)),
        ("fp32", 1e-6, packed("<f", 1e-6)),
        ("fp32", 3, packed("<f", 3.0)),
        ("fp32", 1e300, 0x7F800000),
        ("fp32", float("-inf"), 0xFF800000),
        ("fp16", 1.5, packed("<e", 1.5)),
        ("fp16", 65519.0, packed("<e", 65504.0)),
        ("fp16", -65520.0, 0xFC00),
        ("bf16", 1.0, 0x3F80),
        ("bf16", 1.00390625, 0x3F80),
        ("bf16", -2.0, 0xC000),
    ],
)
def test_numbers_have_the_bits_that_triton_passes(type: str, value: object, bits: int) -> None:
    number = Number.model_construct(type=type, value=value)
    size = {"i1": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}.get(type) or int(type[1:]) // 8
    assert bits_of(number) & (2 ** (8 * size) - 1) == bits


@pytest.mark.parametrize("type", ["fp16", "bf16", "fp32", "fp64"])
def test_no_number_stays_none(type: str) -> None:
    exponent = {"fp16": 0x7C00, "bf16": 0x7F80, "fp32": 0x7F800000, "fp64": 0x7FF0000000000000}[type]
    bits = bits_of(Number(type=type, value=float("nan")))
    assert bits & exponent == exponent
    assert bits & ~exponent & (exponent - 1 | exponent >> 1)


def test_arguments_keep_their_order_and_scratch_follows() -> None:
    launch = Launch(
        kernel="0" * 64,
        grid=(1, 1, 1),
        arguments=(
            Pointer(buffer=1, offset_bytes=16, extent_bytes=4, dtype="float32"),
            Number(type="i32", value=-1),
            Pointer(buffer=0, offset_bytes=0, extent_bytes=4, dtype="float32"),
        ),
        function="f",
    )
    cells = pack(launch, [1000, 2000], (7, 0))
    assert cells == [2016, -1, 1000, 7, 0]
    assert LaunchParameters(cells).address
