"""Secrets do not stay in text that is written down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.security.credentials import mint
from service.security.redaction import redact

ID = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4"


def test_a_token_goes_and_the_text_around_it_stays() -> None:
    text, _ = mint(ID)
    assert redact(f"GET /{text}?a=b") == f"GET /{text[:13]}…?a=b"
    assert redact(f"{text} {text}") == f"{text[:13]}… {text[:13]}…"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("redis://:hunter2@queue:6379/0 did not answer", "redis://…@queue:6379/0 did not answer"),
        ("postgresql+psycopg://reef:hunter2@db/reef", "postgresql+psycopg://…@db/reef"),
        ("redis://queue:6379/0", "redis://queue:6379/0"),
        ("see https://example.org/a@b", "see https://example.org/a@b"),
        ("the reef_searches gauge, reef_jobs", "the reef_searches gauge, reef_jobs"),
    ],
)
def test_passwords_in_addresses_go(text: str, left: str) -> None:
    assert redact(text) == left


def test_what_only_looks_like_a_token_hides_none() -> None:
    text, _ = mint(ID)
    assert redact(f"reef_00000{text}") == f"reef_00000{text[:13]}…"
    assert redact(f"{text}{text}") == f"{text[:13]}…{text[:13]}…"


@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_no_text_around_it_hides_a_token(before: str, after: str) -> None:
    text, _ = mint(ID)
    assert text[27:] not in redact(before + text + after)
