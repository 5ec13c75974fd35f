"""Reading of vendors' responses: text, thoughts, token counts and ends, in the many forms that vendors send them.

Nothing that was paid for is thrown away because of its form. A count that cannot be true is no count.
"""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_TOKENS = 10**7
"""Largest token count that is believed: ten times the longest context of any model."""
MOST_DEPTH = 8
"""Maximum depth of nested content that is searched for text."""
THOUGHT_PARTS = re.compile(r"think|thought|reason|analysis|summary", re.I)
"""Pattern of the types of parts that hold thoughts: `thinking`, `redacted_thinking`, `reasoning`, `reasoning_text`."""
CUT_SHORT = re.compile(
    r"length|max_?(output_?|completion_?)?tokens|context_window|incomplete|pause_turn|resource|^error$|abort|interrupt",
    re.I,
)
"""Pattern of ends of answers that a limit cut."""
AS_USUAL = re.compile(r"^(|stop\w*|end\w*|eos\w*|null|done|finish(ed)?|complete(d)?|tool_\w+|function_call)$", re.I)
"""Pattern of ends of whole answers."""
LIMITED = re.compile(r"length|tokens|context_window|incomplete", re.I)
"""Pattern of those ends of cut answers that a limit, or the end of a stream, explains."""
FILTERED = re.compile(
    r"filter|safety|refus|recitation|prohibited|blocklist|guardrail|sensitive|moderation|spii|blocked", re.I
)
"""Pattern of ends of answers that a filter cut, or that the model refused."""
WORDS = (
    *("message", "error", "detail", "msg", "error_msg", "errors", "title", "reason", "raw", "metadata"),
    *("error_message", "error_description", "base_resp", "status_msg"),
)
"""Fields with a vendor's words on an error."""
PROMPT_COUNTS = ("prompttokens", "inputtokens", "prompttokencount", "inputtokencount", "promptevalcount")
ANSWER_COUNTS = ("completiontokens", "outputtokens", "candidatestokencount", "outputtokencount", "evalcount")
TOTAL_COUNTS = ("totaltokens", "totaltokencount")
"""Names of token counts in the APIs of all vendors, in lower case and without other characters."""
USAGES = ("usage", "usageMetadata", "usage_metadata", "amazon-bedrock-invocationMetrics", "x_groq", "billed_units")
"""Fields that hold token counts, some within others. `usage.billed_units` (Cohere) is what is charged."""
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thoughts", "reasoning_details")
"""Fields of a message that hold thoughts beside its content."""


@dataclass(frozen=True)
class TokenCounts:
    """Tokens that a vendor bills; None for those that it does not count."""

    prompt: int | None = None
    answer: int | None = None


@dataclass(frozen=True)
class VendorReply:
    """Content of a vendor's response.

    Attributes:
        text: Answer of the model, without thoughts that the vendor separates.
        thoughts: Separated thoughts.
        model: Name of the model, as it reports it.
        end: Reason of the end, in the vendor's word; empty if it gave none.
        refusal: Words of a refusal, beside the text.
        tokens: Billed tokens.
        failure: Error object inside a successful response; None if there is none.
    """

    text: str
    thoughts: str = ""
    model: str = ""
    end: str = ""
    refusal: str = ""
    tokens: TokenCounts = field(default_factory=TokenCounts)
    failure: object = None

    @property
    def truncated(self) -> bool:
        """True if a limit cut the answer."""
        return not self.filtered and bool(CUT_SHORT.search(self.end))

    @property
    def filtered(self) -> bool:
        """True if a filter cut the answer, or the model refused."""
        return bool(FILTERED.search(self.end)) or (bool(self.refusal) and not self.text.strip())

    @property
    def broken_off(self) -> bool:
        """True if the answer ended for a reason of the vendor's own: no limit, no filter, and not the model."""
        return not (self.filtered or AS_USUAL.match(self.end) or LIMITED.search(self.end))

    @property
    def said(self) -> str:
        """Text of the answer. Some servers put a whole answer into the thoughts if the model marks no end of them."""
        return self.text if self.text.strip() or self.truncated else self.thoughts


def mapping(value: object) -> Mapping[str, Any]:
    """Return a value if it is a JSON object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> Sequence[Any]:
    """Return a value if it is a JSON array, otherwise an empty one."""
    return value if isinstance(value, list) else ()


def word(value: object) -> str:
    """Return a value if it is a text, otherwise an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """Return a token count, rounded up; None if the value is none. Some vendors send texts or fractions."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,12}(\.\d{1,6})?", value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return math.ceil(value)


def texts(content: object, *, thoughts: bool = False, depth: int = 0) -> str:
    """Join the texts of content: a text, parts, or parts of parts.

    Args:
        content: The content.
        thoughts: True for the texts of thoughts, False for all others.
        depth: Depth of the content within the response.
    """
    if isinstance(content, str):
        return "" if thoughts else content
    if isinstance(content, list):
        return joined([texts(part, thoughts=thoughts, depth=depth + 1) for part in content])
    if not isinstance(content, dict) or depth > MOST_DEPTH:
        return ""
    is_thought = bool(THOUGHT_PARTS.search(word(content.get("type")))) or content.get("thought") is True
    inner = next(
        (content[name] for name in ("text", "thinking", "summary", "content", "value") if content.get(name)), ""
    )
    if is_thought:
        said = texts(inner, depth=depth + 1) + texts(inner, thoughts=True, depth=depth + 1)
        return said if thoughts else ""
    return texts(inner, thoughts=thoughts, depth=depth + 1)


def all_texts(content: object) -> str:
    """Join the texts of content, those of thoughts too."""
    return texts(content) + texts(content, thoughts=True)


def joined(parts: Sequence[str]) -> str:
    """Join parts of a text; a code block that a part begins with begins a line."""
    whole = ""
    for part in parts:
        whole += "\n" * (part.startswith("```") and whole[-1:] not in ("", "\n", "`")) + part
    return whole


def chat_tokens(usage: object) -> TokenCounts:
    """Read the usage of a chat completion or a response.

    Some vendors (xAI, Gemini) bill thoughts that are in `total_tokens` but not in `completion_tokens`.
    """
    given = {re.sub("[^a-z]", "", str(name).lower()): value for name, value in mapping(usage).items()}
    prompt, answer, total = (_first(given, names) for names in (PROMPT_COUNTS, ANSWER_COUNTS, TOTAL_COUNTS))
    details = mapping(given.get("completiontokensdetails")) or mapping(given.get("outputtokensdetails"))
    thought = count(details.get("reasoning_tokens")) or count(given.get("reasoningtokens")) or 0
    if answer is not None and thought > answer:
        answer += thought
    if total is not None and prompt is not None:
        answer = max(answer or 0, total - prompt)
    elif total is not None and answer is not None:
        prompt = max(0, total - answer)
    return TokenCounts(prompt, answer)


def tokens_in(body: Mapping[str, Any], depth: int = 0) -> TokenCounts:
    """Find the usage in a response or in an event of a stream, wherever the vendor puts it."""
    inside = [mapping(body.get(name)) for name in reversed(USAGES)]
    inside += [mapping(choice) for choice in items(body.get("choices"))]
    found = [tokens_in(each, depth + 1) for each in inside if each and depth < MOST_DEPTH]
    return next((each for each in (*found, chat_tokens(body)) if each != TokenCounts()), TokenCounts())


def streamed_tokens(counted: Sequence[tuple[TokenCounts, bool]]) -> TokenCounts:
    """Return the tokens of a stream from the counts of its events, each with True if the event brings text.

    Counts that fall, or never grow while text comes, are those of the events alone, and are added up. All others grow
    to the count of the whole answer.
    """
    prompt = max((tokens.prompt for tokens, _ in counted if tokens.prompt is not None), default=None)
    said = [tokens.answer for tokens, brings in counted if brings and tokens.answer is not None]
    after = [tokens.answer for tokens, brings in counted if not brings and tokens.answer is not None]
    falls = any(later < earlier for earlier, later in itertools.pairwise(said))
    if falls or (len(said) > 1 and said[-1] == said[0]):
        total = sum(said)
        return TokenCounts(prompt, after[-1] if after and after[-1] >= total else total + sum(after))
    return TokenCounts(prompt, max((*said, *after), default=None))


def with_calls(text: str, calls: Sequence[tuple[str, object]]) -> str:
    """Return a text, with the code that the model put into tool calls if the text has none."""
    given = tool_text(calls)
    if not text.strip():
        return given or text
    return f"{text}\n\n{given}" if _has_code(given) and not _has_code(text) else text


def tool_text(calls: Sequence[tuple[str, object]]) -> str:
    """Return the text that a model put into tool calls although it was given no tools: its code, or the arguments.

    Args:
        calls: Name and arguments of each call; the arguments may be JSON in a text.
    """
    return "\n\n".join(_argument_text(arguments) for _, arguments in calls)


def error_message(body: object, depth: int = 0) -> str:
    """Return the vendor's own words in an error's body, of whatever form; empty if it has none.

    A gateway's words come first, then those of the provider behind it, which say more.
    """
    if isinstance(body, str):
        inner = _parsed(body)
        return error_message(inner, depth + 1) if inner is not None and depth < MOST_DEPTH else " ".join(body.split())
    if isinstance(body, list):
        return "; ".join(filter(None, (error_message(item, depth + 1) for item in body[:3])))
    if not isinstance(body, dict) or depth > MOST_DEPTH:
        return ""
    found: list[str] = []
    place = ".".join(str(each) for each in items(body.get("loc")))  # pydantic's
    for name in WORDS:
        said = error_message(body.get(name), depth + 1)
        said = f"{place}: {said}" if place and said and name == "msg" else said
        if said and not any(said in earlier for earlier in found):
            found.append(said)
    return ": ".join(found)


def _has_code(text: str) -> bool:
    return "```" in text or "<<<<<<<" in text


def _first(given: Mapping[str, Any], names: Sequence[str]) -> int | None:
    return next((found for name in names if (found := count(given.get(name))) is not None), None)


def _argument_text(arguments: object) -> str:
    given = _parsed(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(given, dict):
        return word(arguments)
    said = max((value for value in given.values() if isinstance(value, str)), key=len, default="")
    if "\n" not in said or any(re.match("old|search|find", name) for name in given):
        return json.dumps(given)  # arguments that are no code, or an edit
    return said if _has_code(said) else f"```python\n{said}\n```"


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or array that a text is; None if it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None
