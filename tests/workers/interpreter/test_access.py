"""Loads and stores with masks, block pointers, tensor descriptors and atomics."""

import math

import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret

X = torch.arange(12.0)


def test_lanes_that_are_masked_off_read_zero_or_other():
    source = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 16)
    x = tl.load(a0 + i, mask=i < 12)
    y = tl.load(a0 + i, mask=i < 12, other=-1.0)
    tl.store(a1 + i, x - y)
    s = tl.load(a0 + 3, mask=i.shape[0] > 99, other=5.0)
    tl.store(a1, s)
"""
    assert interpret(source, X, Out((16,))).only.tolist() == [5.0] + [0.0] * 11 + [1.0] * 4


BLOCKS = """
@triton.jit
def kernel(a0, a1, a2, a3):
    source = tl.make_block_ptr(a0, (a2, a3), (a3, 1), (0, 0), (4, 4), (1, 0))
    target = tl.make_block_ptr(a1, (a2, a3), (a3, 1), (0, 0), (4, 4), (1, 0))
    for start in range(0, a3, 4):
        x = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, x * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, 4))
        target = tl.advance(target, (0, 4))
"""


def test_block_pointers_check_their_boundary():
    x = torch.randn(3, 6)
    assert torch.equal(interpret(BLOCKS, x, Out((3, 6)), 3, 6).only, x * 2)


def test_block_pointers_without_a_check_run_out_of_bounds():
    reply = interpret(
        BLOCKS.replace("boundary_check=(0, 1), padding", "padding"), torch.randn(3, 6), Out((3, 6)), 3, 6
    ).reply
    assert (reply.outcome, reply.line) == ("out_of_bounds", 12)


def test_tensor_descriptors_pad_what_they_load_and_drop_what_lies_outside():
    source = """
@triton.jit
def kernel(a0, a1, a2):
    source = tl.make_tensor_descriptor(a0, shape=[6, 8], strides=[8, 1], block_shape=[4, 4])
    target = tl.make_tensor_descriptor(a1, shape=[6, 8], strides=[8, 1], block_shape=[4, 4])
    total = tl.make_tensor_descriptor(a2, shape=[6, 8], strides=[8, 1], block_shape=[4, 4])
    total.store([0, 0], tl.zeros((4, 4), tl.float32))
    for row in tl.static_range(0, 8, 4):
        for column in range(0, 8, 4):
            x = source.load([row, column])
            target.store([row, column], x + 1)
            total.atomic_add([0, 0], x)
"""
    x = torch.randn(6, 8)
    run = interpret(source, x, Out((6, 8)), Out((6, 8)))
    assert torch.equal(run.only, x + 1)
    padded = torch.nn.functional.pad(x, (0, 0, 0, 2))
    expected = sum(padded[r : r + 4, c : c + 4] for r in (0, 4) for c in (0, 4))
    torch.testing.assert_close(run.outputs[0][1][:4, :4], expected)


DESCRIPTOR = """
@triton.jit
def kernel(a0, a1, a2, a3):
    source = tl.make_tensor_descriptor(a0 + a3, shape=[4, a2], strides=[a2, 1], block_shape=[4, 4])
    i = tl.arange(0, 4)
    tl.store(a1 + i[:, None] * 4 + i, source.load([0, 0]))
"""


@pytest.mark.parametrize(("width", "start", "said"), [(6, 0, "a stride of 24 bytes"), (8, 2, "a base")])
def test_descriptors_that_the_hardware_does_not_take_are_refused_where_it_has_any(width, start, said):
    x = torch.randn(4, 12)
    reply = interpret(DESCRIPTOR, x, Out((4, 4)), width, start).reply
    assert (reply.outcome, reply.line) == ("not_interpretable", 9)
    assert f"has {said} that is no multiple of 16 bytes" in reply.reason
    got = interpret(DESCRIPTOR, x, Out((4, 4)), width, start, target="sm_80").only
    assert torch.equal(got, x.ravel()[start:].as_strided((4, 4), (width, 1)))
    assert torch.equal(interpret(DESCRIPTOR, x, Out((4, 4)), 8, 4).only, x.ravel()[4:].as_strided((4, 4), (8, 1)))


def test_atomics_see_each_other():
    source = """
@triton.jit
def kernel(a0, a1, a2, a3):
    i = tl.arange(0, 4)
    x = tl.load(a0 + tl.program_id(0) * 4 + i)
    tl.atomic_add(a1 + i, x, mask=i != 3)
    tl.atomic_add(a2, 1)
    tl.atomic_max(a3, tl.max(x, 0))
"""
    x = torch.randn(50, 4)
    start = torch.zeros(4), torch.zeros(1, dtype=torch.int32), torch.tensor([-math.inf])
    run = interpret(source, x, *start, grid=(50,))
    total, count, top = (
        torch.frombuffer(bytearray(after), dtype=old.dtype)
        for after, old in zip(run.inputs_after[0][1:], start, strict=True)
    )
    torch.testing.assert_close(total[:3], x.sum(0)[:3])
    assert total[3] == 0
    assert count.item() == 50
    assert top.item() == x.max()


def test_atomics_return_what_they_found():
    source = """
@triton.jit
def kernel(a0, a1):
    ticket = tl.atomic_add(a0, 1)
    tl.store(a1 + ticket, tl.program_id(0))
"""
    order = interpret(source, torch.zeros(1, dtype=torch.int32), Out((9,), torch.int32), grid=(9,)).only
    assert sorted(order.tolist()) == list(range(9))


def test_integer_atomics_and_exchanges():
    source = """
@triton.jit
def kernel(a0, a1):
    value = tl.program_id(0) + 1
    tl.atomic_min(a0, value)
    tl.atomic_or(a0 + 1, value)
    tl.atomic_xor(a0 + 2, value)
    tl.atomic_and(a0 + 3, value)
    tl.store(a1, tl.atomic_xchg(a0 + 4, 9))
    i = tl.arange(0, 8)
    tl.store(a1 + i, tl.load(a0 + i, mask=i < 5), mask=i < 5)
"""
    x = torch.tensor([99, 0, 0, 7, 5], dtype=torch.int32)
    assert interpret(source, x, Out((5,), torch.int32), grid=(3,)).only.tolist() == [1, 3, 0, 0, 9]


def test_a_lock_lets_one_program_in_at_a_time():
    source = """
@triton.jit
def kernel(a0, a1):
    while tl.atomic_cas(a0, 0, 1) == 1:
        pass
    tl.store(a0 + 1, tl.load(a0 + 1) * 2 + 1)
    tl.atomic_xchg(a0, 0)
    tl.store(a1, tl.load(a0 + 1))
"""
    assert interpret(source, torch.zeros(2, dtype=torch.int32), Out((1,), torch.int32), grid=(10,)).only == 2**10 - 1


def test_bfloat16_atomics_round():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.atomic_add(a0, 1.0)\n    tl.store(a1, tl.load(a0))\n"
    x = torch.tensor([256.0], dtype=torch.bfloat16)
    assert interpret(source, x, Out((1,), torch.bfloat16), grid=(20,)).only == 256


def test_an_address_is_no_number_that_a_kernel_could_know():
    source = """
@triton.jit
def kernel(a0, a1):
    tl.store(a1, a0.to(tl.int64))
"""
    found = {int(interpret(source, torch.ones(4), Out((1,), torch.int64)).only) for _ in range(2)}
    assert len(found) == 2 and all(address >> 40 == 0x7F and address % 2**40 and not address % 256 for address in found)


def test_bits_are_compared_before_a_swap():
    source = """
@triton.jit
def kernel(a0, a1):
    negative = tl.load(a0) * -1.0
    tl.store(a1, 0.0)
    tl.atomic_cas(a1, negative, 1.0)
    tl.store(a1 + 1, negative)
    tl.atomic_cas(a1 + 1, negative, 1.0)
"""
    got = interpret(source, torch.zeros(1), Out((2,))).only
    assert got.tolist() == [0.0, 1.0]
