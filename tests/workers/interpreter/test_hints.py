"""False hints are refused where compiled code would move other elements, and only there."""

import numpy as np
import pytest
import torch
from triton import language as tl

from tests.workers.devices.kernels import PLAIN, job_for
from tests.workers.interpreter.stage import Out, interpret
from tests.workers.interpreter.test_recompilation import outcome
from workers.devices import ModelDevice
from workers.interpreter import hints
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.formats import TensorValue
from workers.interpreter.hints import give, misread, require_access, spoilt
from workers.protocol import Outcome

X = torch.arange(256, dtype=torch.float16)

COPY = """
@triton.jit
def kernel(a0, a1, a2, a3):
    i = tl.arange(0, 16)
    row = tl.program_id(0)
    mask = i < a2
    {body}
    tl.store(a1 + row * 16 + i, tl.load(a0 + place, mask=mask, other=0.0))
"""

REFUSED = {
    "place = tl.max_contiguous(tl.multiple_of(15 - i, 8), 8)": "tl.max_contiguous in line 12",
    "place = tl.max_contiguous(tl.multiple_of(i ^ 1, 2), 2)": "tl.max_contiguous in line 12",
    "place = row * tl.multiple_of(a3, 16) + i": "tl.multiple_of in line 12",
    "i = tl.multiple_of(i + a3 - 11, 8)\n    place = i": "tl.multiple_of in line 12",
    "mask = i < tl.multiple_of(a3, 8)\n    place = i": "tl.multiple_of in line 12",
    "mask = tl.max_constancy(i < a3, 4)\n    place = i": "tl.max_constancy in line 12",
    "tl.multiple_of(a3, [16])\n    place = row * a3 + i": "tl.multiple_of in line 12",
    "h = tl.max_contiguous(tl.multiple_of(i ^ 1, 2), 2)\n    place = h.to(tl.uint32, bitcast=True)": (
        "tl.max_contiguous in line 12"
    ),
    "h = tl.max_contiguous(tl.multiple_of(i ^ 1, 2), 2).to(tl.float32, bitcast=True)\n    "
    "place = h.to(tl.int32, bitcast=True)": "tl.max_contiguous in line 12",
    "place = i ^ 1\n    p = a0 + place\n    tl.max_contiguous(place, 4)": "tl.max_contiguous in line 14 does",
    "p = a0 + (i ^ 1)\n    tl.load(p)\n    tl.multiple_of(p, 64)\n    place = i": "tl.multiple_of in line 14",
    "p = tl.make_block_ptr(a0, (a3,), (1,), (0,), (16,), (0,))\n    tl.advance(p, (tl.multiple_of(a3, 8),))\n    "
    "place = i": "tl.multiple_of in line 13",
    "p = tl.make_block_ptr(a0, (tl.multiple_of(a3, 8),), (1,), (0,), (16,), (0,))\n    place = i": "tl.multiple_of",
}
"""Bodies at a2 = 16 and a3 = 10, and their reasons."""

TAKEN = {
    "place = tl.max_contiguous(tl.multiple_of(i, 16), 16)": lambda row, i: i,
    "place = row * tl.multiple_of(a3, 2) + i": lambda row, i: row * 10 + i,
    "place = tl.max_contiguous(tl.multiple_of(row * 16 + i, 16), 16)": lambda row, i: row * 16 + i,
    "place = tl.multiple_of(a3, 16) - 10 + 7 * i": lambda row, i: 7 * i,
    "place = tl.max_contiguous((i + 6) % 16, 16) * 16": lambda row, i: (i + 6) % 16 * 16,
    "place = tl.max_contiguous(i ^ 1, 2)": lambda row, i: i ^ 1,
    "place = tl.max_constancy(i // 4, 4)": lambda row, i: i // 4,
    "place = i\n    mask = mask & (place >= 0)\n    place = tl.max_contiguous(place, 16)": lambda row, i: i,
    "if row == 0:\n        place = i\n    else:\n        place = tl.multiple_of(a3, 2) * 1 + i": (
        lambda row, i: i + 10 * row
    ),
}
"""Bodies that are right although a hint may be false, since nothing is moved together because of it."""


@pytest.mark.parametrize("body", REFUSED)
def test_hints_that_lead_compiled_code_astray_are_refused(body):
    reply = interpret(COPY.format(body=body), X, Out((2, 16), X.dtype), 16, 10, grid=(2,)).reply
    assert reply.outcome == "not_interpretable", reply
    assert reply.reason.startswith(REFUSED[body])


@pytest.mark.parametrize("body", TAKEN)
def test_hints_that_hold_or_do_no_harm_are_taken(body):
    got = interpret(COPY.format(body=body), X, Out((2, 16), X.dtype), 16, 10, grid=(2,)).only
    row, i = torch.arange(2)[:, None], torch.arange(16)
    assert torch.equal(got, X[TAKEN[body](row, i).expand(2, 16)])


WRAP = """
@triton.jit
def kernel(a0, a1, a2, B: tl.constexpr):
    cols = (tl.program_id(0) * B + tl.arange(0, B)) % a2
    cols = tl.max_contiguous(tl.multiple_of(cols, B), B)
    rows = tl.arange(0, 4)
    x = tl.load(a0 + rows[:, None] * a2 + cols[None, :])
    tl.store(a1 + rows[:, None] * a2 + cols[None, :], x, mask=cols[None, :] < a2)
"""


@pytest.mark.parametrize("width", [16, 20, 24, 30, 31, 40])
def test_columns_that_wrap_around_may_be_called_contiguous(width):
    """As Triton's tutorial of matrix products has it: rows are as wide as columns wrap, and so never aligned beyond."""
    x = X[: 4 * width].reshape(4, width)
    assert torch.equal(interpret(WRAP, x, Out((4, width), X.dtype), width, grid=(-(-width // 16),), B=16).only, x)


def test_atomics_are_held_against_hints_too():
    source = COPY.replace("tl.store(a1 + row * 16 + i, tl.load(a0 + place, mask=mask, other=0.0))", "{access}")
    source = source.format(body="place = tl.max_contiguous(16 - i, 16)", access="tl.atomic_add(a0 + place, 1.0)")
    assert interpret(source, X, Out((1,)), 16, 10).reply.outcome == "not_interpretable"


def test_what_is_masked_off_may_lie_anywhere():
    address = 2**40 + 2 * np.array([0, 1, 2, 3, 7, 6, 5, 4])[None, None]
    pointer = TensorValue(address, tl.pointer_type(tl.float16))
    hints.give(pointer, "max_contiguous", [8], 1)
    assert pointer.belief is not None
    with pytest.raises(NotInterpretable, match="line 1 does not hold, and compiled code moves 8 elements"):
        hints.require_access(pointer, None)
    half = TensorValue(np.arange(8)[None, None] < 4, tl.int1)
    hints.require_access(pointer, half)
    with pytest.raises(NotInterpretable, match="line 1 does not hold"):
        hints.require_true([pointer])
    hints.require_true([half])


def test_machine_code_that_moves_single_elements_is_led_nowhere():
    pointer = TensorValue(2**40 + 2 * np.array([0, 3, 2, 1])[None, None], tl.pointer_type(tl.float16))
    hints.give(pointer, "max_contiguous", [2], 1)
    hints.require_access(pointer, None, widest_bytes=2)
    for widest, count in {4: 2, 16: 4}.items():
        with pytest.raises(NotInterpretable, match=f"compiled code moves {count} elements at once"):
            hints.require_access(pointer, None, widest)


def test_beliefs_follow_from_beliefs_and_end_where_they_are_true():
    value = TensorValue(np.array([[5]], dtype=np.int32), tl.int32)
    hints.give(value, "multiple_of", [4], 3)
    assert value.believed == 4
    sum_ = hints.apply(np.add, tl.int32, value, TensorValue(np.array([[1]], dtype=np.int32), tl.int32))
    assert (sum_.data, sum_.believed) == (6, 5)
    assert hints.apply(lambda data: data // 4, tl.int32, value).belief is None


HINT = "tl.multiple_of(tl.max_contiguous(o, 4), 4)"
MISPLACED = {
    "in a branch": f"o = cols ^ 1\n    if n_cols < 0:\n        {HINT}",
    "under another name": "o = cols ^ 1\n    if n_cols < 0:\n        p = o.to(tl.int32)\n        tl.multiple_of(p, 4)",
    "in a loop": f"o = cols ^ 1\n    for _ in range(n_cols - 1000000):\n        {HINT}",
    "in a loop that makes another": f"o = cols ^ 1\n    for _ in range(n_cols):\n        {HINT}\n        o += 4",
    "behind a return": f"o = cols ^ 1\n    if n_cols > 0:\n        return\n    {HINT}",
}
IN_PLACE = {
    "about a parameter": "tl.multiple_of(x_ptr, 16)\n    if n_cols < 0:\n        tl.multiple_of(x_ptr, 16)",
    "about what is calculated": f"o = cols ^ 1\n    if n_cols < 0:\n        {HINT.replace('o,', 'o + 3,')}",
    "where the compiler decides": f"o = cols ^ 1\n    if BLOCK > 1:\n        {HINT}",
    "where it is made": f"if n_cols < 0:\n        o = cols ^ 1\n        p = o + 1\n        o = {HINT}",
    "about a loop's counter": f"for o in range(n_cols):\n        o = {HINT}".replace(
        "max_contiguous(o, 4)", "multiple_of(o, 1)"
    ),
    "about what a loop makes": f"o = cols ^ 1\n    for _ in range(n_cols):\n        o += 1\n        {HINT}",
    "at its end": f"o = cols % n_cols\n    p = cols < n_cols\n    o = {HINT}",
}


def told(line: str) -> str:
    return outcome(job_for(PLAIN.replace("    y = e", f"    {line}\n    y = e", 1)))


@pytest.mark.parametrize("where", MISPLACED)
def test_hints_about_values_from_elsewhere_are_refused(where: str):
    assert "is a hint about a value that is made outside" in told(MISPLACED[where])


@pytest.mark.parametrize("where", IN_PLACE)
def test_hints_where_their_value_is_made_are_taken(where: str):
    assert told(IN_PLACE[where]) == ""


def hinted(numbers: list[int]) -> TensorValue:
    """Addresses of float16 that a hint calls contiguous and aligned from each eighth on."""
    pointer = TensorValue(np.array([[numbers]]), tl.pointer_type(tl.float16))
    give(pointer, "max_contiguous", [8], 1)
    return pointer


def test_elements_that_compiled_code_reads_elsewhere_are_known():
    clamped = hinted([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 0, 0, 0, 0])
    missed = misread(clamped, None)
    assert missed is not None and missed[0, 0].tolist() == [False] * 12 + [True] * 4
    assert misread(hinted(list(range(0, 32, 2))), None) is None
    mask = TensorValue(np.array([[[True] * 8 + [False] * 8]]), tl.int1)
    assert misread(clamped, mask) is None, "a mask leaves them out"
    with pytest.raises(NotInterpretable, match="does not hold"):
        require_access(clamped, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
def test_no_two_neighbours_are_spoilt_alike(dtype):
    data = spoilt(np.ones(6, dtype=dtype))
    assert data.dtype == dtype and (dtype == np.bool_ or len({str(value) for value in data[:2]}) == 2)


SWAPPED = """    swapped = cols ^ ((cols & 2) * 4)
    hinted = tl.max_contiguous(tl.multiple_of(cols ^ ((cols & 2) * 4), 8), 8)
    x = tl.load(x_ptr + row * n_cols + hinted, mask=hinted < n_cols"""


def test_a_kernel_whose_results_need_misread_elements_is_wrong():
    """A rogue: compiled code reads no swapped pair, which rows of equal values hide."""
    source = PLAIN.replace("    x = tl.load(x_ptr + row * n_cols + cols, mask=mask", SWAPPED)
    source = source.replace(
        "y_ptr + row * n_cols + cols, y, mask=mask", "y_ptr + row * n_cols + swapped, y, swapped < n_cols"
    )
    assert source.count("swapped") == 3
    source = source.replace("BLOCK=triton", "num_warps=1, BLOCK=16 if x.shape[1] < 16 else triton")
    job = job_for(source)
    report = ModelDevice(job.device, "tester").measure(job)
    assert report.outcome is Outcome.WRONG_RESULT and report.reason.endswith("because of a false hint"), report.reason
