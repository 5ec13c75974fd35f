"""Meaning of a vendor's failures, by status and words. The vendor's own words are kept, shortened and without the key.

Vendors use 400 and 403 for very different things: a wrong key, a region, a prompt that is too long, a prompt that their
rules forbid. So the words decide where the status does not.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from service.llm.base import BackendError, LlmRefused, PermanentFailure, TransientFailure
from service.llm.options import ApiKey
from service.llm.vendor_reply import error_message, mapping, word

QUOTED = 300
"""Maximum characters of a vendor's message that a reason quotes."""
MOST_RETRY_AFTER_S = 3600.0
"""Maximum wait that a vendor may ask for; a longer one is a mistake or an attack."""
AGAIN = {408, 409, 425, 429, 500, 502, 503, 529}
"""Statuses of calls that had no effect and may be repeated later. 529 is Anthropic's for overload."""
IN_THE_DARK = {504, 520, 522, 524}
"""Statuses of a proxy whose wait for the model timed out; the call may be charged (52x are Cloudflare's)."""
ABOUT_A_PROMPT = {400, 403, 413, 422, 451}
"""Statuses that may concern one prompt only, which the words decide."""
TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|(prompt|input|request|message|content).{0,20}(too (long|large)|exceeds)"
    r"|too many (input |prompt )?tokens|maximum context|reduce the length|tokens? limit exceeded"
    r"|token count.{0,30}exceed|input length|longer than the model",
    re.I,
)
"""Pattern of messages that a prompt is too long for the model."""
FILTERED = re.compile(
    r"content.?(filter|policy|management|violation)|safety|moderation|flagged|usage polic|harmful|inappropriate"
    r"|responsible.?ai|jailbreak|data.?inspection|sensitive|prohibited.?content|blocked by",
    re.I,
)
"""Pattern of messages that a prompt violates the vendor's rules."""
NO_MONEY = re.compile(
    r"insufficient.{0,3}(quota|funds|balance|credit)|credit balance|billing|(not enough|out of) credits"
    r"|payment required",
    re.I,
)
"""Pattern of messages that a payment is due; some come with the status of a transient failure."""
NO_KEY = re.compile(r"api.?key|unauthorized|authenticat|credential|token.{0,12}(invalid|expired)|no permission", re.I)
"""Pattern of messages that concern the key."""
CODES = re.compile(r'"(?:code|type|status)"\s*:\s*"([^"]{1,100})"')
"""Pattern of the codes of an error, which say more than its message with some vendors."""
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
    if NO_MONEY.search(about) and status in (400, 402, 403, 429):
        return PermanentFailure(words)
    if status in AGAIN:
        return TransientFailure(words, retry_after_s=retry_after(headers))
    if status in IN_THE_DARK:
        return TransientFailure(words, paid=True)
    about_key = status in (401, 403) and (status == 401 or not said or NO_KEY.search(said))
    if status == 413 or (status in ABOUT_A_PROMPT and (TOO_LONG.search(about) or FILTERED.search(about))):
        return LlmRefused(words)
    return PermanentFailure(f"the vendor does not accept the key ({words})" if about_key else words)


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


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`, which may be a number or a date; None if unusable."""
    said = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", said):
        return min(float(said), MOST_RETRY_AFTER_S)
    try:
        until = parsedate_to_datetime(said)
    except ValueError:
        return None
    wait_s = ((until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return min(max(wait_s, 0.0), MOST_RETRY_AFTER_S)


def _headers_inside(error: Mapping[str, object]) -> dict[str, str]:
    """Return the headers that a gateway (OpenRouter) passes on inside its error."""
    inside = mapping(mapping(error.get("metadata")).get("headers"))
    return {name.lower(): str(value) for name, value in inside.items()}
