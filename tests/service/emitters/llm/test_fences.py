import pytest

from service.emitters.llm.fences import fences, marks_for


def test_blocks_have_their_word_and_the_line_above():
    text = "# Final version\n\n```python title\nx = 1\n```\n\n~~~\ny\n~~~\n"
    first, second = fences(text)
    assert (first.word, first.text, first.above, first.closed) == ("python title", "x = 1", "# Final version", True)
    assert (second.word, second.text, second.above) == ("", "y", "")


def test_an_indent_of_four_closes_nothing_and_one_of_three_does():
    (block,) = fences("```\n    ```\n   ```\n")
    assert block.text == "    ```" and block.closed


@pytest.mark.parametrize("inside", ["``", "~~~", "```x", "a ```"])
def test_other_marks_close_nothing(inside):
    (block,) = fences(f"```\n{inside}\n```")
    assert block.text == inside


def test_longer_marks_are_closed_by_as_many_or_more():
    (block,) = fences("````md\n```\nx\n```\n`````\n")
    assert block.text == "```\nx\n```" and block.closed


def test_an_open_block_reaches_to_the_end():
    (block,) = fences("```python\nx = 1\ny =")
    assert not block.closed and block.text == "x = 1\ny ="


def test_inline_backticks_open_nothing():
    assert fences("```inline``` and more\n    ```\n") == []


@pytest.mark.parametrize("text", ["", "a ``` b", "````", "`" * 9])
def test_nothing_in_a_text_closes_the_fence_made_for_it(text):
    marks = marks_for(text)
    (block,) = fences(f"{marks}\n{text}\n{marks}")
    assert block.text == text and block.closed
