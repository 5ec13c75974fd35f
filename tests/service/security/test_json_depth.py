"""JSON that nests too deep is recognised without being parsed, in little time whatever it is."""

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.security.json_depth import is_too_deep

JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='[]{}"\\a', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='[]{}"\\a', max_size=4), inner, max_size=3)
    ),
    max_leaves=20,
)


def depth(value: object) -> int:
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


@example(value={"": []}, deepest=1)
@given(value=JSON, deepest=st.integers(0, 6))
def test_depth_is_counted_as_parsers_count_it(value: object, deepest: int) -> None:
    assert is_too_deep(json.dumps(value).encode(), deepest) == (depth(value) > deepest)


@pytest.mark.parametrize("text", [b"[", b"]", b"[}", b'["]', b"[[]"])
def test_brackets_that_do_not_pair_are_too_deep(text: bytes) -> None:
    assert is_too_deep(text)


@pytest.mark.parametrize("text", [b"", b"1", b'"[[["', b'"\\"[["', b'"[[[', b'{"a": "]"}', b'"\\', b"a[]b{}"])
def test_strings_open_nothing(text: bytes) -> None:
    assert not is_too_deep(text)


@pytest.mark.parametrize(
    "unit", [b"[", b"[]", b'"', b'\\"', b'"\\"', b'"\\', b'["', b"{[", b"}{"], ids=lambda unit: unit.decode()
)
def test_megabytes_of_anything_take_little_time(unit: bytes) -> None:
    text = b'"' * (unit == b'\\"') + unit * (4 * 2**20 // len(unit))
    start = time.process_time()
    is_too_deep(text)
    assert time.process_time() - start < 2
