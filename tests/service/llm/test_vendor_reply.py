"""Forms of text, counts and errors in vendors' responses."""

import pytest

from service.llm.vendor_reply import (
    TokenCounts,
    VendorReply,
    chat_tokens,
    count,
    error_message,
    joined,
    streamed_tokens,
    texts,
    tokens_in,
    tool_text,
    with_calls,
)


@pytest.mark.parametrize(
    "value, found",
    [
        (3, 3),
        (3.2, 4),
        ("12", 12),
        ("12.5", 13),
        (0, 0),
        (None, None),
        (True, None),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**12, None),
        ("many", None),
        ([3], None),
    ],
)
def test_counts(value: object, found: int | None) -> None:
    assert count(value) == found


@pytest.mark.parametrize(
    "usage, found",
    [
        ({"prompt_tokens": 12, "completion_tokens": 34}, (12, 34)),
        ({"input_tokens": 12, "output_tokens": 34}, (12, 34)),
        (
            {"prompt_tokens": 12, "completion_tokens": 34, "completion_tokens_details": {"reasoning_tokens": 30}},
            (12, 34),
        ),
        ({"prompt_tokens": 12, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 9}}, (12, 10)),
        ({"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 400}, (12, 388)),
        ({"prompt_tokens": 12, "total_tokens": 46}, (12, 34)),
        ({"completion_tokens": 34, "total_tokens": 46}, (12, 34)),
        ({"prompt_tokens": None, "completion_tokens": 34.0}, (None, 34)),
        ({"prompt_eval_count": 12, "eval_count": 34}, (12, 34)),
        ({}, (None, None)),
        (None, (None, None)),
        ([], (None, None)),
    ],
)
def test_usage(usage: object, found: tuple[int | None, int | None]) -> None:
    assert chat_tokens(usage) == TokenCounts(*found)


@pytest.mark.parametrize(
    "content, said, thought",
    [
        ("a", "a", ""),
        ([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}, "c"], "abc", ""),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "a"}], "a", "t"),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]}], "", "t"),
        ([{"type": "text", "text": {"value": "a", "annotations": []}}], "a", ""),
        ({"type": "text", "text": "a"}, "a", ""),
        ([{"text": "t", "thought": True}, {"text": "a"}], "a", "t"),
        ([{"type": "image_url", "image_url": {}}, 3, None], "", ""),
        (None, "", ""),
    ],
)
def test_texts_of_parts(content: object, said: str, thought: str) -> None:
    assert (texts(content), texts(content, thoughts=True)) == (said, thought)


def test_nesting_without_end_is_no_trouble() -> None:
    content: object = "a"
    for _ in range(500):
        content = {"text": content}
    assert texts(content) == ""
    assert error_message({"error": content}) == ""


@pytest.mark.parametrize(
    "arguments, text",
    [
        ('{"code": "import torch\\nx = 1"}', "```python\nimport torch\nx = 1\n```"),
        ({"answer": "Look:\n```python\nx\n```"}, "Look:\n```python\nx\n```"),
        ('{"q": "softmax"}', '{"q": "softmax"}'),
        ("import torch", "import torch"),
        (None, ""),
    ],
)
def test_tool_calls(arguments: object, text: str) -> None:
    assert tool_text([("f", arguments)]) == text


def test_ends() -> None:
    assert [end for end in ("stop", "end_turn", "", "tool_calls") if VendorReply("a", end=end).truncated] == []
    assert all(VendorReply("a", end=end).truncated for end in ("length", "MAX_TOKENS", "model_length", "pause_turn"))
    assert all(VendorReply("a", end=end).filtered for end in ("content_filter", "SAFETY", "refusal", "RECITATION"))
    assert VendorReply("", refusal="no").filtered
    assert not VendorReply("a", refusal="no").filtered


def test_an_answer_among_the_thoughts_counts_unless_it_was_cut() -> None:
    assert VendorReply(" ", thoughts="t", end="stop").said == "t"
    assert VendorReply("", thoughts="t", end="length").said == ""


@pytest.mark.parametrize(
    "body, words",
    [
        ({"error": "no"}, "no"),
        ({"error": {"message": "no", "metadata": {"raw": '{"error": {"message": "why"}}'}}}, "no: why"),
        ({"detail": [{"loc": ["body"], "msg": "bad"}, {"msg": "worse"}]}, "body: bad; worse"),
        ([{"error": {"message": "no"}}], "no"),
        ("plain\n text", "plain text"),
        ({"message": "no", "error": "no"}, "no"),
        ({}, ""),
        (None, ""),
    ],
)
def test_words_of_errors(body: object, words: str) -> None:
    assert error_message(body) == words


@pytest.mark.parametrize(
    "body, found",
    [
        ({"usage": {"prompt_tokens": 1, "completion_tokens": 2}, "prompt_tokens": 9}, (1, 2)),
        ({"x_groq": {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}}, (1, 2)),
        ({"choices": [{"usage": {"completion_tokens": 2}}]}, (None, 2)),
        ({"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 9}}, (1, 8)),
        ({"amazon-bedrock-invocationMetrics": {"inputTokenCount": 1, "outputTokenCount": 2}}, (1, 2)),
        ({"prompt_eval_count": 1, "eval_count": 2}, (1, 2)),
        ({"usage": None, "choices": [None]}, (None, None)),
    ],
)
def test_places_of_usage(body: dict[str, object], found: tuple[int | None, int | None]) -> None:
    assert tokens_in(body) == TokenCounts(*found)


@pytest.mark.parametrize(
    "answers, found",
    [
        ([(5, True)], 5),
        ([(5, True), (9, True), (9, False)], 9),
        ([(9, True), (9, False)], 9),
        ([(1, True), (1, True), (1, True)], 3),
        ([(4, True), (2, True), (6, False)], 6),
        ([(4, True), (2, True), (1, False)], 7),
        ([(None, True), (7, False)], 7),
        ([], None),
    ],
)
def test_counts_of_a_stream(answers: list[tuple[int | None, bool]], found: int | None) -> None:
    counted = [(TokenCounts(3, answer), brings) for answer, brings in answers]
    assert streamed_tokens(counted) == TokenCounts(3 if answers else None, found)


def test_tool_calls_beside_a_text_count_if_it_has_no_code() -> None:
    code = [("f", {"code": "import torch\nx = 1"})]
    assert with_calls("So.", code) == "So.\n\n```python\nimport torch\nx = 1\n```"
    assert with_calls("```\nx\n```", code) == "```\nx\n```"
    assert with_calls("So.", [("f", {"q": "softmax"})]) == "So."


def test_an_edit_in_a_tool_call_stays_one() -> None:
    assert tool_text([("f", {"old_str": "a\nb", "new_str": "c"})]) == '{"old_str": "a\\nb", "new_str": "c"}'


def test_a_block_begins_a_line() -> None:
    assert joined(["I plan.", "```python\nx", "\n```"]) == "I plan.\n```python\nx\n```"


def test_ends_of_the_vendors_own() -> None:
    assert [
        end for end in ("stop", "", "length", "eos_token", "SAFETY", "tool_use") if VendorReply("", end=end).broken_off
    ] == []
    assert all(VendorReply("", end=end).broken_off for end in ("abort", "OTHER", "insufficient_system_resource"))
