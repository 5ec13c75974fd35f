"""Thoughts within answers: what is thought goes, what only looks like it stays."""

import pytest

from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.thoughts import after_tag, without_thoughts


@pytest.mark.parametrize(
    "text, answer",
    [
        ("a", "a"),
        ("<think>t</think>a", "a"),
        ("b<think>t</think>a", "ba"),
        ("<THINKING>t</THINKING>a", "a"),
        ("[THINK]t[/THINK]a", "a"),
        ("◁think▷t◁/think▷a", "a"),
        ("<think>t<think>u</think>v</think>a", "a"),
        ("t</think>a", "a"),
        ("a</think>  ", "a"),
        ("I quote `<think>` here", "I quote `<think>` here"),
        ("```\nx = '<think>'\n```", "```\nx = '<think>'\n```"),
        ("```\ndraft\n</think>\n```\nx\n```", "\n```\nx\n```"),
        ("<think>```\ndraft</think>\na", "\na"),
        (
            "<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|><|channel|>final<|message|>a<|return|>",
            "a",
        ),
        ("<|start|>assistant<|channel|>final<|message|>a", "a"),
        ("analysist assistantcommentaryu assistantfinala", "a"),
        ("analysis of assistants", "analysis of assistants"),
        ("a<|eot_id|></s>\n", "a"),
    ],
)
def test_what_is_left(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


@pytest.mark.parametrize("text", ["<think>t", "<reasoning>t", "[THINK]", "<|channel|>analysis<|message|>t"])
def test_thoughts_without_an_end(text: str) -> None:
    with pytest.raises(UnusableAnswer, match="cut while the model thought: raise max_tokens"):
        without_thoughts(text)


def test_what_follows_the_first_tag() -> None:
    assert after_tag("a<think>b<think>c") == "b<think>c"
    assert after_tag("a") == "a"
