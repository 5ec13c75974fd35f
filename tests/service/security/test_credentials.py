"""Tokens: recognisable, whole or refused, and nothing in their digest leads back."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uuid6 import uuid7

from service.security.credentials import PATTERN, PREFIX, digest_of, mint, read


@given(id=st.uuids().map(str))
def test_a_token_leads_to_its_id_and_digest(id: str) -> None:
    text, digest = mint(id)
    credential = read(text)
    assert PATTERN.fullmatch(text)
    assert credential is not None and credential.id == id
    assert credential.matches(digest)
    assert credential.secret not in digest and digest not in text


def test_every_token_is_another_one() -> None:
    id = str(uuid7())
    (first, digest), (second, _) = mint(id), mint(id)
    assert first != second
    other = read(second)
    assert other is not None and not other.matches(digest)


@given(place=st.integers(0, 75), digit=st.sampled_from(string.ascii_letters + string.digits))
def test_a_mistyped_token_is_none(place: int, digit: str) -> None:
    text, _ = mint("0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4")
    wrong = text[:place] + digit + text[place + 1 :]
    assert (read(wrong) is None) == (wrong != text)


@pytest.mark.parametrize(
    "change", [str.upper, str.swapcase, lambda text: text + "0", lambda text: text[:-1], str.strip]
)
def test_only_the_whole_token_is_one(change: object) -> None:
    text, _ = mint(str(uuid7()))
    changed = change(text)  # type: ignore[operator]
    assert (read(changed) is None) == (changed != text)


@given(st.text(max_size=100))
def test_anything_may_be_sent(text: str) -> None:
    assert read(text) is None
    assert read(PREFIX + text) is None


def test_an_id_that_is_too_large_is_none() -> None:
    assert read("reef_" + "z" * 22 + "0" * 43 + "000000") is None


def test_a_secret_is_not_shown_by_accident() -> None:
    text, digest = mint(str(uuid7()))
    credential = read(text)
    assert credential is not None
    assert credential.secret not in repr(credential)
    assert digest == digest_of(credential.secret)
    assert len(digest) == 64
