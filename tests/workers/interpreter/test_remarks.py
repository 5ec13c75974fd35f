"""Dangers that only a card would show: loads of other lanes' stores, and 32-bit offsets at shapes beyond execution."""

import numpy as np
import pytest
import torch
from triton import language as tl

from tests.workers.interpreter.stage import Out, interpret
from workers.interpreter.formats import TensorValue
from workers.interpreter.memory import DeviceMemory
from workers.interpreter.remarks import Remarks
from workers.protocol import Launch, Plan, Pointer, Shape
from workers.protocol.plan import Buffer

BACK = """
@triton.jit
def kernel(a0, a1, a2, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    other = tl.program_id(0) * BLOCK + {other}
    tl.store(a1 + lanes, tl.load(a0 + lanes){mask})
    {between}
    tl.store(a2 + lanes, tl.load(a1 + other))
"""
REVERSED = "(BLOCK - 1 - tl.arange(0, BLOCK))"
SAID = "kernel loads what other lanes of the same program stored"


def remarks(other: str = REVERSED, between: str = "pass", mask: str = "") -> tuple[str, ...]:
    """The remarks on a kernel that stores a block and loads it back."""
    source = BACK.format(other=other, between=between, mask=mask)
    run = interpret(source, torch.randn(256), Out((256,)), Out((256,)), grid=(8,), BLOCK=32)
    assert run.reply.outcome is None, run.reply.reason
    return run.reply.remarks


def test_a_load_of_what_another_lane_stored_gets_one_remark() -> None:
    (said,) = remarks()
    assert said.startswith(SAID)


@pytest.mark.parametrize(
    ("other", "between"),
    [
        ("tl.arange(0, BLOCK)", "pass"),
        (REVERSED, "tl.debug_barrier()"),
    ],
)
def test_own_elements_and_barriers_get_none(other: str, between: str) -> None:
    assert remarks(other, between) == ()


def test_a_loop_that_loads_what_an_earlier_turn_stored_does() -> None:
    between = "for turn in range(2):\n        tl.store(a1 + lanes, tl.load(a1 + lanes) + turn)"
    assert remarks("tl.arange(0, BLOCK)", between) == ()
    assert remarks("tl.arange(0, BLOCK)", between.replace("load(a1 + lanes)", "load(a1 + lanes // 2 * 2)"))


def test_a_scalar_is_stored_by_one_lane_and_loaded_by_all() -> None:
    source = "@triton.jit\ndef kernel(a0, a1, a2):\n    tl.store(a1, tl.load(a0))\n    tl.store(a2, tl.load({}))\n"
    for loaded, count in (("a1", 1), ("a0", 0)):
        run = interpret(source.format(loaded), torch.randn(1), Out((1,)), Out((1,)))
        assert len(run.reply.remarks) == count


def test_another_programs_elements_are_no_matter_of_a_program() -> None:
    source = BACK.format(other="0", between="pass", mask="").replace("tl.load(a1 + other)", "tl.load(a0 + lanes)")
    assert interpret(source, torch.randn(256), Out((256,)), Out((256,)), grid=(8,), BLOCK=32).reply.remarks == ()


def launch(elements: int) -> Launch:
    pointer = Pointer(buffer=0, offset_bytes=0, extent_bytes=elements * 4, dtype="float32")
    return Launch(kernel="0" * 64, grid=(1, 1, 1), arguments=(pointer,), function="kernel", parameters=("x",))


def plan(elements: int) -> Plan:
    shape = Shape(dims={"M": 1})
    return Plan(
        shape=shape, buffers=(Buffer(id=0, bytes=elements * 4, input=0),), steps=(launch(elements),), outputs=()
    )


@pytest.mark.parametrize(
    ("offsets", "dtype", "elements", "count"),
    [
        (np.array([[[0, 96]]], np.int32), tl.int32, 2**31, 1),
        (np.array([[[0, 96]]], np.int32), tl.int32, 2**31 - 1, 0),
        (np.array([[[0, 96]]], np.int64), tl.int64, 2**31, 0),
        (np.array([[[0, 9]]], np.int32), tl.int32, 2**31, 0),
    ],
)
def test_offsets_of_32_bits_reach_no_further_than_2_to_the_31(offsets, dtype, elements: int, count: int) -> None:
    noted, memory = Remarks(), DeviceMemory(1, [400], ["'x'"])
    noted.launch(launch(100), memory)
    address = TensorValue(np.array([[memory.address(0, 0)]]), tl.pointer_type(tl.float32))
    noted.offset(address, TensorValue(offsets, dtype))
    found = noted.conclude([plan(elements)])
    assert len(found) == count and all("32-bit offsets to 'x'" in said for said in found)
