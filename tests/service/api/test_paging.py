"""Cursors name the last thing seen, survive a round trip, and are refused if no answer of ours held them."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.records import Listed
from service.api.paging import decode, decode_id, decode_number, decode_sorted, encode, listed, page, remaining, whole
from service.errors import InvalidInput

ID = "0190a000-0000-7000-8000-000000000000"


@given(
    st.floats(allow_nan=False),
    st.integers(0, 10**9),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
)
def test_a_cursor_survives_the_round_trip(objective: float, cell: int, name: str) -> None:
    cursor = encode((objective, cell, name))
    assert decode(cursor, float, int, str) == [objective, cell, name]
    assert cursor.isascii()
    assert not set(cursor) & set("+/=?&")


def test_without_a_cursor_there_is_no_key() -> None:
    assert decode(None, str) is None
    assert decode_id(None) is None


@given(st.text(max_size=40))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="the cursor is invalid") as caught:
        decode_id(text)
    assert caught.value.field == "cursor"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'["a", 1]', b"[1]", b"[" * 100_000, b'["\\ud800"]', b'["0190a000\\u0000"]', b"\xff"]
)
def test_a_forged_cursor_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_id(base64.urlsafe_b64encode(body).decode())


def test_an_id_comes_back_as_it_went() -> None:
    assert decode_id(encode((ID,))) == ID


def test_a_page_knows_whether_there_is_more() -> None:
    numbers = list(range(5))
    first = page(numbers, 4, lambda number: (number,), str)
    assert first.items == ["0", "1", "2", "3"]
    assert first.next is not None
    assert decode(first.next, int) == [3]
    assert page(numbers, 5, lambda number: (number,), str).next is None
    assert page([], 5, lambda number: (number,), str).model_dump() == {"items": [], "next": None}


def test_a_number_comes_back_as_it_went_unless_no_database_counts_that_far() -> None:
    assert [decode_number(encode([number])) for number in (0, 7, 2**63 - 1)] == [0, 7, 2**63 - 1]
    assert decode_number(None) is None
    for wrong in ([-1], [2**63], ["7"], [1.5]):
        with pytest.raises(InvalidInput, match="the cursor is invalid"):
            decode_number(encode(wrong))


@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        ([True], (int,)),
        ([2**63], (int,)),
        ([-(2**63) - 1], (int,)),
        ([10**400, "x"], ((int, float), str)),
        (["a\0b"], (str,)),
        ([1.5, "\ud800"], ((int, float), str)),
    ],
)
def test_what_no_database_can_be_asked_for_is_refused(key: list[int | float | str], kinds: tuple[type, ...]) -> None:
    with pytest.raises(InvalidInput, match="the cursor is invalid"):
        decode(encode(key), *kinds)


def test_a_cursor_of_a_sorted_list_names_its_order() -> None:
    first = listed(Listed(("a",), (1.5, "x")), "-best", str.upper)
    assert first.items == ["A"] and first.next is not None
    assert decode_sorted(first.next, "-best", ((int, float), str)) == (1.5, "x")
    assert decode_sorted(None, "-best", (str,)) is None
    assert listed(Listed((), None), "-best", str).next is None
    with pytest.raises(InvalidInput, match="sorted by '-best'"):
        decode_sorted(first.next, "best", ((int, float), str))


def test_a_list_that_is_read_whole_is_paged_by_name() -> None:
    names = ["c", "a", "b"]
    first = whole(names, None, 2, str, str.upper)
    assert first.items == ["A", "B"]
    assert whole(names, first.next, 2, str, str.upper).model_dump() == {"items": ["C"], "next": None}
    assert remaining(names, lambda name: (name,), ("c",), descending=True) == ["b", "a"]
