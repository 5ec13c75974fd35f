"""Meaning of a vendor's failures, by status and words. The vendor's own words are kept, shortened and without the key.

Vendors use 400 and 403 for very different things: a wrong key, a region, a prompt that is too long, a prompt that their
rules forbid. So the words decide where the status does not.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from service.llm.base import BackendError, LlmRefused, PermanentFailure, TransientFailure
from service.llm.options import HIDDEN, ApiKey
from service.llm.vendor_reply import error_message, mapping, word

QUOTED = 300
"""Maximum characters of a vendor's message that a reason quotes."""
NUMBER = r"\d{1,9}(\.\d{1,9})?"
MOST_RETRY_AFTER_S = 3600.0
"""Maximum wait that a vendor may ask for; a longer one is a mistake or an attack."""
AGAIN = {408, 409, 425, 429, 498, 500, 502, 503, 521, 523, 525, 526, 529, 530}
"""Statuses of calls that had no effect and may be repeated later.

529 is Anthropic's for overload, 498 Groq's for a full tier; at the others of 52x and 53x, Cloudflare reached nobody.
"""
FOR_GOOD = {501, 505, 506, 510, 511}
"""Statuses of 500 and more that no repetition mends. After all others the call may be charged: a proxy timed out."""
IN_THE_DARK = {424, 499}
"""Statuses below 500 of calls that may be charged: the model failed (Bedrock, TGI), or a gateway ended the request."""
ABOUT_A_PROMPT = {400, 403, 413, 422, 451}
"""Statuses that may concern one prompt only, which the words decide."""
TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|(prompt|input|request|message|content).{0,20}(too (long|large)|exceeds)"
    r"|too many (input |prompt )?tokens|maximum context|reduce the length|tokens? limit exceeded"
    r"|token count.{0,30}exceed|input length|inputs.{0,3} tokens|longer than the model",
    re.I,
)
"""Pattern of messages that a prompt is too long for the model."""
TOO_LARGE = re.compile(r"(prompt|input|request) (is )?too (long|large)|context.{0,20}(length|window|size)", re.I)
"""Pattern of the same with a status of failures that pass: the prompt alone exceeds a rate limit or a context."""
GENERATED = re.compile(r"tool_use_failed|json_validate_failed|failed_generation|unexpected tokens", re.I)
"""Pattern of rejections of what the model wrote (Groq, vLLM), such as calls of tools that it was not given."""
FILTERED = re.compile(
    r"content.?(filter|policy|management|violation)|safety|moderation|flagged|usage polic|harmful|inappropriate"
    r"|responsible.?ai|jailbreak|data.?inspection|sensitive|prohibited.?content|blocked by|敏感|违规",
    re.I,
)
"""Pattern of messages that a prompt violates the vendor's rules."""
NO_MONEY = re.compile(
    r"insufficient.{0,3}(quota|funds|balance|credit)|credit balance|billing|(not enough|out of) credits"
    r"|payment required|arrear|good standing|余额|欠费",
    re.I,
)
"""Pattern of messages that a payment is due; some come with the status of a transient failure."""
NO_KEY = re.compile(r"api.?key|unauthorized|authenticat|credential|token.{0,12}(invalid|expired)|no permission", re.I)
"""Pattern of messages that concern the key."""
CODES = re.compile(r'"(?:code|type|status)"\s*:\s*"([^"]{1,100})"')
"""Pattern of the codes of an error, which say more than its message with some vendors."""
DURATION = re.compile(
    r"""(?:(?:try again|retry|wait)\s(?:in|after|for)\s|"retry_?(?:after|delay)\w*"\s*:\s*"?)"""
    r"(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)\s?(?P<ms>ms|milli)?)?",
    re.I,
)
"""Pattern of waits within an error's words: `try again in 1m2.5s` (OpenAI, Groq), `"retryDelay": "37s"` (Google)."""
BUSY = re.compile(
    r"overload|rate.?limit|too many requests|capacity|temporar|try again|timed? ?out|unavailable|busy", re.I
)
"""Pattern of messages of failures that pass."""


def failure_of(status: int, headers: Mapping[str, str], text: str, key: ApiKey | None) -> BackendError:
    """Return the failure that an HTTP status with a body means."""
    said = quote(error_message(text), key)
    words = f"status {status}" + (f": {said}" if said else "")
    about = " ".join([said, *CODES.findall(text)])
    if 300 <= status < 400:
        return PermanentFailure(
            f"the response is a redirect (status {status}), which is not followed; is base_url right?"
        )
    wait_s = retry_after(headers, text)
    passes = status == 429 and wait_s is not None and "insufficient" not in about
    if NO_MONEY.search(about) and status in (400, 402, 403, 429) and not passes:
        return PermanentFailure(words)
    if status in ABOUT_A_PROMPT and GENERATED.search(text):
        return TransientFailure(words, paid=True)
    lengthy = TOO_LONG if status in ABOUT_A_PROMPT else TOO_LARGE
    if status == 413 or (status in (*ABOUT_A_PROMPT, 429, 500) and lengthy.search(about)):
        return LlmRefused(words)
    if status in AGAIN:
        return TransientFailure(words, wait_s)
    if status in IN_THE_DARK or (status >= 500 and status not in FOR_GOOD):
        return TransientFailure(words, paid=True)
    if status in ABOUT_A_PROMPT and FILTERED.search(about):
        return LlmRefused(words)
    if status == 401 or (status == 403 and (not said or NO_KEY.search(said))):
        return PermanentFailure(f"the vendor does not accept the key ({words})")
    about_key = NO_KEY.search(said) or HIDDEN in said
    return PermanentFailure(words, rejection=status in (400, 422) and not about_key)


def failure_inside(error: object, key: ApiKey | None) -> BackendError:
    """Return the failure that an error object inside a successful response means.

    Its code counts as a status. Without one, the words tell whether the failure passes. Whether the vendor charges for
    such a call is known only if the code says that nothing was done.
    """
    given = mapping(error)
    code = given.get("code", given.get("status"))
    status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[1-5]\d\d", str(code)) else None
    if status is not None and status >= 400:
        found = failure_of(status, {}, error_message(error) or str(code), key)
        wait_s = retry_after(_headers_inside(given))
        return TransientFailure(found.detail, wait_s) if isinstance(found, TransientFailure) and wait_s else found
    said = quote(": ".join(filter(None, (word(given.get("type")), word(code), error_message(error)))), key)
    words = f"the response is an error: {said or 'without words'}"
    if NO_MONEY.search(said):
        return PermanentFailure(words, paid=True)
    if (TOO_LONG.search(said) or FILTERED.search(said)) and not BUSY.search(said):
        return LlmRefused(words)
    if NO_KEY.search(said):
        return PermanentFailure(words)
    return TransientFailure(words, paid=True)


def quote(text: str, key: ApiKey | None) -> str:
    """Make an untrusted text safe to quote: one short line without control characters and without the key."""
    text = key.redact(text) if key else text
    return re.sub(r"[^\x20-\x7e\u00a0-\ud7ff\ue000-\ufffd]+", " ", text).strip()[:QUOTED]


def retry_after(headers: Mapping[str, str], text: str = "") -> float | None:
    """Return the seconds that a vendor asks to wait, in a header (a number or a date) or in words; None if unusable."""
    said = headers.get("retry-after", "").strip()
    if re.fullmatch(NUMBER, found := headers.get("retry-after-ms", "").strip()):
        return min(float(found) / 1000, MOST_RETRY_AFTER_S)
    if re.fullmatch(NUMBER, said):
        return min(float(said), MOST_RETRY_AFTER_S)
    try:
        until = parsedate_to_datetime(said)
    except ValueError:
        return _wait_in(text)
    wait_s = ((until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return min(max(wait_s, 0.0), MOST_RETRY_AFTER_S)


def _wait_in(text: str) -> float | None:
    """Return the wait that an error's words ask for; None if they ask for none."""
    found = DURATION.search(text)
    if found is None or not any(found.groups()):
        return None
    seconds = float(found["s"] or 0) / (1000 if found["ms"] else 1)
    return min(3600.0 * int(found["h"] or 0) + 60.0 * int(found["m"] or 0) + seconds, MOST_RETRY_AFTER_S)


def _headers_inside(error: Mapping[str, object]) -> dict[str, str]:
    """Return the headers that a gateway (OpenRouter) passes on inside its error."""
    inside = mapping(mapping(error.get("metadata")).get("headers"))
    return {name.lower(): str(value) for name, value in inside.items()}
