import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.assembler.ptx.tokens import TokenCursor, TokenKind, line_of, tokenize
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


def test_accepting_steps_only_over_what_was_asked_for() -> None:
    cursor = TokenCursor("ret ;")
    assert not cursor.accept(";")
    assert cursor.accept("ret")
    cursor.expect(";")
    assert cursor.done


def test_a_failure_names_what_was_found_and_where() -> None:
    cursor = TokenCursor("ret\n;")
    cursor.take()
    with pytest.raises(AssemblyRefused, match=r"expected a word, found ';' on its line 2"):
        cursor.take_kind(TokenKind.WORD)


def test_nothing_can_be_taken_beyond_the_end() -> None:
    cursor = TokenCursor("ret")
    cursor.take()
    with pytest.raises(AssemblyRefused, match="found its end"):
        cursor.take()


@pytest.mark.parametrize("text", ["-1", "0x10", "1.5", "12345678901", "a"])
def test_a_whole_number_is_digits(text: str) -> None:
    with pytest.raises(AssemblyRefused):
        TokenCursor(text).take_integer()


def test_lines_are_those_of_the_first_file() -> None:
    cursor = TokenCursor("1 10 0 2 99 0 1 12 4")
    lines = []
    for _ in range(3):
        cursor.skip_location()
        lines.append(cursor.line)
    assert lines == [10, None, 12]


def test_inlined_code_counts_where_it_was_inlined() -> None:
    cursor = TokenCursor("1 10 0 2 99 3, function_name $L__info_string0 + 4, inlined_at 1 20 15 ret")
    cursor.skip_location()
    cursor.skip_location()
    assert cursor.line == 20
    assert cursor.next.text == "ret"
