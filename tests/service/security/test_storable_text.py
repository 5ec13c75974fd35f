"""Texts with NUL or half a character are found wherever they are in a document, and no others."""

import json

import pytest

from service.security.storable_text import holds_unkept


@pytest.mark.parametrize("text", ["\0", "\ud800", "\udfff", "a\0b", "\ude00\ud83d"])
def test_they_are_found_at_any_place(text: str) -> None:
    for document in (text, [1, text], {"a": {"b": [text]}}, {text: 1}):
        assert holds_unkept(json.dumps(document).encode())


@pytest.mark.parametrize("text", ["", "plain", "\U0001f600", "\ud7ff\ue000", "\\u0000", "\\\\ud800", "\x01\uffff"])
def test_other_texts_pass(text: str) -> None:
    for document in (text, {"a": [text]}):
        for plain in (True, False):
            assert not holds_unkept(json.dumps(document, ensure_ascii=plain).encode())


@pytest.mark.parametrize("body", [b"", b"{", b'"\\ud800', b"\\u0000", b"[1,,]"])
def test_what_is_no_json_is_for_others(body: bytes) -> None:
    assert not holds_unkept(body)
