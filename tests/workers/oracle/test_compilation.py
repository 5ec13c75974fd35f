"""Machine code for a target comes out without a card."""

from typing import get_args

import pytest
import torch
import triton.language as tl

from workers.errors import ToolMissing
from workers.oracle.compilation import MEASURED, compile_oracle, measure_constants, measure_name
from workers.protocol.operator import DtypeName

DTYPES = get_args(DtypeName)


def test_every_kernel_is_compiled():
    compiled = compile_oracle("sm_90")
    measures = {measure_name(name, columns) for name in MEASURED for columns in (16, 15)}
    assert compiled.keys() == {"differences", "sift"} | measures
    for kernel in compiled.values():
        assert kernel.code.startswith(b"\x7fELF")
        assert kernel.num_warps == 4
        assert kernel.shared_bytes < 48 * 1024


def test_names_tell_even_rows_from_odd_ones():
    assert measure_name("bfloat16", 4096) != measure_name("bfloat16", 4095)
    assert measure_name("bfloat16", 4096) == measure_name("bfloat16", 16)


def test_every_float_has_a_kernel_of_its_own():
    floats = [name for name in DTYPES if getattr(torch, name).is_floating_point]
    assert set(floats) == MEASURED.keys()
    assert measure_constants("bfloat16")["bits"] == 0
    assert measure_constants("float8_e4m3fn") == {"dtype": tl.float16, "bits": 3}


@pytest.mark.parametrize("target", ["gfx942", "sm_1"])
def test_other_targets_are_refused(target):
    with pytest.raises(ToolMissing, match=target):
        compile_oracle(target)
