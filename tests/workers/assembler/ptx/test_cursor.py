import pytest

from workers.assembler.ptx.cursor import TokenCursor
from workers.assembler.ptx.tokens import TokenKind
from workers.assembler.refusal import AssemblyRefused


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
