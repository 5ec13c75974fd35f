"""Narrow floats round as in torch, survive memory, and truncate as in Triton."""

import numpy as np
import pytest
import torch
import triton.language as tl

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.formats import FORMATS, decode, encode, format_of, round_to, truncate_to, truncate_to_tf32

VALUES = np.random.default_rng(0).normal(0, 30, 500).astype(np.float32)
NARROW = {tl.bfloat16: torch.bfloat16, tl.float16: torch.float16}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rounding_is_torchs(dtype):
    expected = torch.from_numpy(VALUES).to(NARROW[dtype]).float().numpy()
    np.testing.assert_array_equal(round_to(VALUES, dtype), expected)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_memory_holds_torchs_bits(dtype):
    rounded = round_to(VALUES, dtype)
    raw = encode(rounded, dtype)
    bits = torch.from_numpy(VALUES).to(NARROW[dtype]).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(raw, bits)
    np.testing.assert_array_equal(decode(raw, dtype), rounded)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_truncation_never_grows_a_value(dtype):
    cut = truncate_to(VALUES, dtype)
    assert (np.abs(cut) <= np.abs(VALUES)).all() and (cut != round_to(VALUES, dtype)).any()


def test_tf32_keeps_ten_bits_of_the_mantissa():
    cut = truncate_to_tf32(VALUES)
    assert (np.abs(cut - VALUES) <= np.abs(VALUES) * 2.0**-10).all()
    assert not (cut.view(np.uint32) & 0x1FFF).any()


def test_a_block_has_the_format_of_its_elements():
    assert format_of(tl.block_type(tl.bfloat16, [16])) is FORMATS["bf16"]


def test_a_type_without_a_format_is_said_to_be_unknown():
    with pytest.raises(NotInterpretable):
        format_of(tl.float8e4b15)
