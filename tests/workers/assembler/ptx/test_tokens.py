import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.assembler.ptx.tokens import TokenKind, line_of, tokenize
from workers.assembler.refusal import AssemblyRefused

WORDS = ("ld.global.v4.b32", "%r12", "%tid.x", "$L__BB0_1", "a$b", "cp.async.bulk.tensor.2d.shared::cta.global")
NUMBERS = ("0", "12", "0x7fU", "0f3F800000", "0d3FF0000000000000", "1.0", "2.5e-3", "0b101")
OTHERS = (".global", ".b8", ".L2::cache_hint", '"a text"', "{", "}", "[", "]", ",", ";", "@", "!", "|", "-")
SPACES = (" ", "\n\t", " // a comment\n", "/* a\ncomment */", "\n\t.section\t.debug_info\n{\n.b8 1\n}\n")


@given(st.lists(st.sampled_from(WORDS + NUMBERS + OTHERS)), st.sampled_from(SPACES))
def test_tokens_come_back_whatever_stands_between_them(texts: list[str], space: str) -> None:
    assert [token.text for token in tokenize(space + space.join(texts) + space)] == texts


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ld.global.b32", TokenKind.WORD),
        (".reg", TokenKind.DIRECTIVE),
        ("0x10", TokenKind.NUMBER),
        ('"x"', TokenKind.STRING),
        (";", TokenKind.MARK),
    ],
)
def test_a_token_knows_its_kind(text: str, kind: TokenKind) -> None:
    assert [token.kind for token in tokenize(text)] == [kind]


def test_a_comment_inside_a_mnemonic_splits_it() -> None:
    assert [token.text for token in tokenize("st/**/.global/**/.b32")] == ["st", ".global", ".b32"]


@pytest.mark.parametrize(
    "text",
    [
        "ret;\0 st.global.b32",
        "ret;\x0c",
        "ret\u2028",
        "#define ret",
        "a \\ b",
        "0x1Fzz",
        "12ab",
        "/* never ends",
        '"never ends',
        '"a\\"b"',
        "a ? b",
        "%r1 ` 2",
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(AssemblyRefused):
        tokenize(text)


@given(st.text(max_size=200))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        tokens = tokenize(text)
    except AssemblyRefused as refused:
        assert refused.reason
    else:
        assert all(text[token.offset :].startswith(token.text) for token in tokens)


def test_a_place_knows_its_line() -> None:
    text = "a\nb\nc"
    assert [line_of(text, token.offset) for token in tokenize(text)] == [1, 2, 3]
