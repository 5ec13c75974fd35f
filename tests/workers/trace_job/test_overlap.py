import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.protocol import DTYPE_BYTES, View
from workers.trace_job import overlap
from workers.trace_job.overlap import OverlapUndecided, share_bytes, shares_with_itself

AXES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=3)
VIEWS = st.builds(
    lambda axes, offset, dtype: view([size for size, _ in axes], [stride for _, stride in axes], offset, dtype),
    AXES,
    st.integers(0, 40),
    st.sampled_from(["int8", "bfloat16", "float32"]),
)


def view(shape, strides, offset_bytes=0, dtype="bfloat16", buffer=1):
    return View(buffer=buffer, offset_bytes=offset_bytes, shape=tuple(shape), strides=tuple(strides), dtype=dtype)


def elements(of):
    """The first byte of each element."""
    size = DTYPE_BYTES[of.dtype]
    for index in product(*map(range, of.shape)):
        yield of.offset_bytes + size * sum(i * stride for i, stride in zip(index, of.strides, strict=True))


def covered(of):
    return {first + byte for first in elements(of) for byte in range(DTYPE_BYTES[of.dtype])}


@given(VIEWS, VIEWS)
def test_views_share_what_their_bytes_have_in_common(one, other):
    expected = bool(covered(one) & covered(other))
    assert share_bytes(one, other) is share_bytes(other, one) is expected


@given(VIEWS)
def test_a_view_shares_with_itself_what_it_covers_twice(one):
    every = list(elements(one))
    assert shares_with_itself(one) is (len(set(every)) < len(every))


def test_buffers_share_nothing():
    assert share_bytes(view((4,), (1,)), view((4,), (1,)))
    assert not share_bytes(view((4,), (1,)), view((4,), (1,), buffer=2))


ROWS, COLUMNS = 2**17, 2**13
INTERLEAVED = {
    "rows in turns": ((ROWS, COLUMNS), (2 * COLUMNS, 1), 2 * COLUMNS),
    "elements in turns": ((ROWS, COLUMNS), (2 * COLUMNS, 2), 2),
    "transposed": ((COLUMNS, ROWS), (2, 2 * COLUMNS), 2),
    "tiles in turns": ((ROWS // 64, 64, COLUMNS // 64, 64), (128 * COLUMNS, 64, 8192, 1), 2 * 4096),
}


@pytest.mark.parametrize(("shape", "strides", "offset"), INTERLEAVED.values(), ids=INTERLEAVED)
def test_gigabytes_are_told_apart_at_once(shape, strides, offset):
    began = time.perf_counter()
    one = view(shape, strides)
    assert not share_bytes(one, view(shape, strides, offset)) and not shares_with_itself(one)
    assert share_bytes(one, view(shape, strides, offset - 1)), "one byte of each element"
    assert share_bytes(one, view(shape, strides, 2 * sum(strides)))
    assert time.perf_counter() - began < 1


def test_strides_that_would_take_too_long_are_not_guessed():
    sizes, primes = (40, 40, 40), (999_983, 1_000_003, 999_979)
    one, other = view(sizes, primes, dtype="int8"), view(sizes, (999_961, 999_959, 999_953), 7_777_777, "int8")
    with pytest.raises(OverlapUndecided):
        share_bytes(one, other)
    assert overlap.MOST_TRIED < 10_000
