"""Thoughts of reasoning models within the text of an answer, in the forms in which servers leave them there."""

import re

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer
from service.emitters.llm.fences import spans

CUT_IN_THOUGHT = "the answer was cut while the model thought: raise max_tokens of its backend"

_NAMES = r"think|thinking|thoughts?|reasoning|analysis|scratchpad|seed:think"
_MARK = r"<\|(?:{})_(?:of_)?(?:thought|thinking)\|>"
_OPENS = re.compile(
    rf"<(?:{_NAMES})>|\[THINK\]|◁think▷|<\|channel>thought|{_MARK.format('begin|start')}|<\|inner_prefix\|>",
    re.IGNORECASE,
)
_CLOSES = re.compile(
    rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷|<channel\|>|{_MARK.format('end')}|<\|inner_suffix\|>", re.IGNORECASE
)
_TAGS = re.compile(f"(?P<opens>{_OPENS.pattern})|(?P<closes>{_CLOSES.pattern})", re.IGNORECASE)
"""Tags around thoughts: Qwen, DeepSeek and most others, Mistral, Kimi, Seed, Gemma, Cohere, Apertus."""
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?P<name>[a-z]+)(?:(?!<\|message\|>).){0,200}<\|message\|>(?P<said>.*?)"
    r"(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
"""Channel of OpenAI's harmony format; `final` is the answer."""
_FINAL = "assistantfinal"
"""Start of the final channel where a server dropped the special tokens of the harmony format."""
_LEFT_OVER = re.compile(
    r"^\s*<\|im_start\|>assistant\s*\n|(?:\s*(?:<\|[^|\s]{1,40}\|>|<\uff5c[^\uff5c\s]{1,40}\uff5c>|</s>|<eos>|<end_of_turn>))+\s*$"
)
"""Special tokens of chat templates at the start or the end of an answer."""


def without_thoughts(text: str) -> str:
    """Return an answer without the model's thoughts, and without special tokens around it.

    A closing tag without an opening one ends thoughts whose opening tag was part of the prompt, so all text before it
    is thought. Tags that code or prose quotes are no tags.

    Raises:
        UnusableAnswer: If the thoughts have no end.
    """
    return _LEFT_OVER.sub("", _without_tags(_final_channel(text)))


def after_tag(text: str) -> str:
    """Return the text after the first tag that opens thoughts: all of the answer, if they have no end."""
    return text[found.end() :] if (found := _OPENS.search(text)) else text


def _final_channel(text: str) -> str:
    channels = [(found["name"], found["said"]) for found in _CHANNEL.finditer(text)]
    if channels:
        final = [said for name, said in channels if name == "final"]
        final = final or [said for name, said in channels if name == "commentary"]  # a call of a tool
        if not final:
            raise UnusableAnswer(AnswerFault.TRUNCATED, CUT_IN_THOUGHT)
        return final[-1]
    is_harmony = text.lstrip().startswith(("analysis", "commentary")) and _FINAL in text
    return text.rpartition(_FINAL)[2] if is_harmony else text


def _without_tags(text: str) -> str:
    quoted = spans(text)
    spoken, place, thinks = "", 0, False
    for tag in _TAGS.finditer(text):
        if tag["closes"] and thinks:
            place, thinks = tag.end(), False
        elif thinks or _is_quoted(text, tag, quoted):
            continue
        elif tag["opens"]:
            spoken, place, thinks = spoken + text[place : tag.start()], tag.end(), True
        elif text[tag.end() :].strip():
            spoken, place = "", tag.end()
        else:
            text = text[: tag.start()]
            break
    if thinks:
        raise UnusableAnswer(AnswerFault.TRUNCATED, CUT_IN_THOUGHT)
    return spoken + text[place:]


def _is_quoted(text: str, tag: re.Match[str], quoted: list[tuple[int, int]]) -> bool:
    """Return True if a tag is in a code block, unless it has a line for itself, or in a code span."""
    line = text[text.rfind("\n", 0, tag.start()) + 1 :].partition("\n")[0]
    if line.strip() == tag.group():
        return False
    return text[tag.start() - 1 : tag.start()] == "`" or any(start < tag.start() < end for start, end in quoted)
