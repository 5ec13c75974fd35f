"""The counter of long sentences: its rules for Markdown, and the share of long sentences in the docs."""

from benchmarks.sentences import long_ones, pages, sentences, words

MOST = 0.02
"""Largest share of sentences of more than 35 words in the docs."""


def test_a_sentence_ends_at_a_stop_before_a_capital() -> None:
    text = "One has four words. Two has four\nwords (e.g. here). It took 3.5 s of time!"
    assert sentences(text) == ["One has four words.", "Two has four words (e.g here).", "It took 3.5 s of time!"]


def test_items_cells_and_paragraphs_are_apart() -> None:
    text = "- one two three four\n- five six seven\n  eight\n\n| nine ten eleven twelve | 3 |\n| --- | --- |\n"
    text += "end of all **that.** Text - and one more"
    assert sentences(text) == [
        "one two three four",
        "five six seven eight",
        "nine ten eleven twelve",
        "end of all **that.",
        "Text - and one more",
    ]


def test_code_headings_comments_and_targets_are_skipped() -> None:
    text = "# A heading of five words\n<!-- a comment of many words -->\n```sh\nreef run one two three\n```\n"
    text += "Run `reef search --operator rmsnorm` as [the page](docs/a_page.md) says."
    assert sentences(text) == ["Run X as the page says."]


def test_words_hold_a_letter_or_a_digit() -> None:
    assert words("a - b = 3 %, or not") == 5


def test_a_sentence_of_36_words_is_long() -> None:
    assert long_ones(sentences("word " * 35)) == []
    assert len(long_ones(sentences("word " * 36))) == 1


def test_long_sentences_are_rare_in_the_docs() -> None:
    found = [sentence for page in pages() for sentence in sentences(page.read_text(encoding="utf-8"))]
    assert len(found) > 1000
    assert len(long_ones(found)) / len(found) < MOST, long_ones(found)
