"""HTTP transport of backends: addresses, deadlines, sizes, and the meaning of each failure.

Responses are untrusted. A failure says whether the vendor may charge for the call (`paid`): it may once a request was
sent and no refusal came back. Such a call must not be repeated.
"""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
from pydantic import Field

from service.llm.base import BackendError, Completion, LlmPrompt, LlmRefused, PermanentFailure, TransientFailure
from service.llm.options import ApiKey, BackendContext, HttpOptions, clean, is_global, most_tokens

CONNECT_S = 10.0
"""Seconds for name resolution, connection and TLS handshake; far more than a working network takes."""
MOST_BODY_BYTES = 8 * 2**20
"""Maximum bytes of a response: a hundred times the longest kernel with all its reasoning."""
MOST_RETRY_AFTER_S = 3600.0
"""Maximum wait that a vendor may ask for; a longer one is a mistake or an attack."""
QUOTED = 300
"""Maximum characters of a vendor's message that a reason quotes."""
AGAIN = {408, 409, 425, 429, 500, 502, 503, 529}
"""Statuses of calls that had no effect and may be repeated later. 529 is Anthropic's for overload."""
IN_THE_DARK = {504, 520, 522, 524}
"""Statuses of a proxy whose wait for the model timed out; the call may be charged (52x are Cloudflare's)."""
TOO_LONG = re.compile(
    r"context.{0,20}(length|window)|prompt is too long|too many (input )?tokens|maximum context", re.I
)
"""Pattern of messages that a prompt is too long for the model."""
FILTERED = re.compile(r"content.?(filter|policy|management)|safety|moderation", re.I)
"""Pattern of messages that a prompt violates the vendor's rules."""
NO_MONEY = re.compile(r"insufficient.?(quota|funds|balance)|credit balance|billing", re.I)
"""Pattern of messages that a payment is due; some come with the status of a transient failure."""


Tokens = Annotated[int, Field(ge=0, le=10**9)]
"""Token count from a vendor."""


class VendorClient:
    """Client that posts JSON to one vendor. It follows no redirect, uses no proxy, keeps no cookie or connection."""

    def __init__(self, options: HttpOptions, key: ApiKey | None, headers: Mapping[str, str]) -> None:
        """Prepare calls with some headers, which carry the key; quoted messages never show it."""
        self._options = options
        self._key = key
        self._headers = dict(headers)
        verify = True if options.ca_file is None else ssl.create_default_context(cafile=options.ca_file)
        self._client = httpx.AsyncClient(
            verify=verify,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(options.timeout_s, connect=CONNECT_S),
            # The vendor may close a kept connection while a request is sent; whether it was charged would be unknown.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def post(self, path: str, body: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Send one request and read its answer, a JSON object.

        Args:
            path: Path below the base URL.
            body: Body of the request.
            key: Value of the `Idempotency-Key` header, for vendors that know it.

        Raises:
            TransientFailure: The vendor is overloaded or unreachable, or its response was incomplete or broken.
            PermanentFailure: The vendor does not accept the key, the model or the request, or the address is wrong.
            LlmRefused: The prompt is too long for the model, or violates the vendor's rules.
        """
        try:
            async with asyncio.timeout(min(CONNECT_S, self._options.timeout_s)):
                request = await self._request(path, body, key)
        except (TimeoutError, OSError) as error:
            raise TransientFailure(f"the host's name could not be resolved: {error or 'no answer'}") from error
        try:
            async with asyncio.timeout(self._options.timeout_s):
                return await self._exchange(request)
        except TimeoutError as error:
            raise TransientFailure(f"no complete response in {self._options.timeout_s:g} s", paid=True) from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.WriteError) as error:
            raise TransientFailure(f"no connection: {self._quote(str(error)) or type(error).__name__}") from error
        except httpx.HTTPError as error:
            detail = self._quote(str(error)) or type(error).__name__
            raise TransientFailure(f"the connection broke before the response ended: {detail}", paid=True) from error

    async def _request(self, path: str, body: Mapping[str, Any], key: str) -> httpx.Request:
        """Build a request to the resolved and checked address, so that exactly that address is called."""
        parts = urlsplit(self._options.base_url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        address = await self._resolve(host, port)
        url = httpx.URL(self._options.base_url + path).copy_with(host=address, port=port)
        headers = {
            **self._headers,
            "Host": parts.netloc,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "kernelreef",
        }
        if key:
            headers["Idempotency-Key"] = key
        content = json.dumps(body, ensure_ascii=True).encode()
        return self._client.build_request(
            "POST", url, headers=headers, content=content, extensions={"sni_hostname": host}
        )

    async def _resolve(self, host: str, port: int) -> str:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        usable = [address for address in addresses if self._options.is_near or is_global(address)]
        if not usable:
            raise PermanentFailure(f"{host} has a private address; set private_network = true to allow it")
        return usable[0]

    async def _exchange(self, request: httpx.Request) -> dict[str, Any]:
        response = await self._client.send(request, stream=True)
        try:
            status = response.status_code
            if not 200 <= status < 300:
                raise self._failure(status, response.headers, await self._start_of(response))
            self._check_head(response)
            return self._parse(await self._body(response))
        finally:
            await response.aclose()

    def _check_head(self, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            shown = self._quote(kind) or "nothing"
            raise PermanentFailure(f"the response is {shown} instead of JSON; is base_url right?", paid=True)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise PermanentFailure("the response is compressed although the request forbids it", paid=True)

    async def _body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MOST_BODY_BYTES:
                raise TransientFailure(f"the response is longer than {MOST_BODY_BYTES} bytes", paid=True)
        return bytes(body)

    async def _start_of(self, response: httpx.Response) -> str:
        """Read the beginning of an error's body; empty if that fails."""
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > 8 * QUOTED:
                    break
        except httpx.HTTPError:
            return ""
        return body[: 8 * QUOTED].decode(errors="replace")

    def _parse(self, body: bytes) -> dict[str, Any]:
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise TransientFailure("the response is not JSON", paid=True) from error
        if not isinstance(parsed, dict):
            raise TransientFailure("the response is not a JSON object", paid=True)
        return parsed

    def _failure(self, status: int, headers: httpx.Headers, text: str) -> BackendError:
        """Return the failure that a status means, with the vendor's message where it helps."""
        said = self._quote(_message(text))
        words = f"status {status}" + (f": {said}" if said else "")
        if status in (401, 403):
            return PermanentFailure(f"the vendor does not accept the key (status {status})")
        if 300 <= status < 400:
            return PermanentFailure(
                f"the response is a redirect (status {status}), which is not followed; is base_url right?"
            )
        if NO_MONEY.search(text) and status in (400, 402, 429):
            return PermanentFailure(words)
        if status in AGAIN:
            return TransientFailure(words, retry_after_s=retry_after(headers))
        if status in IN_THE_DARK:
            return TransientFailure(words, paid=True)
        if status == 413 or (status in (400, 422) and (TOO_LONG.search(text) or FILTERED.search(text))):
            return LlmRefused(words)
        return PermanentFailure(words)

    def _quote(self, text: str) -> str:
        """Make an untrusted text safe to quote: one short line without control characters and without the key."""
        text = self._key.redact(text) if self._key else text
        return re.sub(r"[^\x20-\x7e\u00a0-\ud7ff\ue000-\ufffd]+", " ", text).strip()[:QUOTED]


def completion_of(
    prompt: LlmPrompt,
    surroundings: BackendContext,
    *,
    text: str,
    model: str,
    tokens: tuple[int, int] | None,
    truncated: bool,
) -> Completion:
    """Build a completion with its cost.

    Args:
        prompt: Prompt that was answered.
        surroundings: Context with the price.
        text: Text of the answer.
        model: Name of the model, as it reports it.
        tokens: Tokens of prompt and answer; None if the vendor does not count, and the maximum is assumed.
        truncated: True if the answer ran into a limit.
    """
    text = clean(text)
    input_tokens, output_tokens = tokens or (most_tokens(prompt.system, prompt.user), most_tokens(text))
    cost_usd = surroundings.cost(input_tokens, output_tokens)
    return Completion(text, clean(model)[:200], input_tokens, output_tokens, cost_usd, truncated)


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


def _message(text: str) -> str:
    """Return the message in an error's body if it has the usual form, else the body."""
    try:
        error = json.loads(text)
        for step in ("error", "message"):
            error = error.get(step, error) if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        return text
    return error if isinstance(error, str) else text
