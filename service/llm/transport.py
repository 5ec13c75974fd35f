"""How backends call a vendor over HTTP, in one place: addresses, deadlines, sizes, and what each failure means.

Everything that comes back is a stranger's. A failure says whether the vendor may charge for the call (`paid`): it may
once a request was sent and no refusal came back, and such a call must not be repeated.
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
"""Seconds for a name, a connection and a TLS handshake; far more than any of them takes on a working network."""
MOST_BODY_BYTES = 8 * 2**20
"""Largest answer taken: a hundred times the longest kernel with all its reasoning."""
MOST_RETRY_AFTER_S = 3600.0
"""Longest wait that a vendor may ask for; a longer one is a mistake or a trick."""
QUOTED = 300
"""Characters of a vendor's message that are quoted in a reason."""
AGAIN = {408, 409, 425, 429, 500, 502, 503, 529}
"""Statuses that mean: nothing was done, try later. 529 is Anthropic's for overload."""
IN_THE_DARK = {504, 520, 522, 524}
"""Statuses of a proxy that waited in vain for the model, which may have answered and charged (52x are Cloudflare's)."""
TOO_LONG = re.compile(
    r"context.{0,20}(length|window)|prompt is too long|too many (input )?tokens|maximum context", re.I
)
"""How vendors say that a prompt is longer than the model can take."""
FILTERED = re.compile(r"content.?(filter|policy|management)|safety|moderation", re.I)
"""How vendors say that they will not have a prompt answered."""
NO_MONEY = re.compile(r"insufficient.?(quota|funds|balance)|credit balance|billing", re.I)
"""How vendors say that somebody has to pay first, even with a status that sounds passing."""


Tokens = Annotated[int, Field(ge=0, le=10**9)]
"""A vendor's count of tokens."""


class VendorClient:
    """Posts JSON to one vendor. Follows no redirect, asks no proxy, keeps no cookie and no connection."""

    def __init__(self, options: HttpOptions, key: ApiKey | None, headers: Mapping[str, str]) -> None:
        """Prepare calls.

        Args:
            options: Where, and how long.
            key: What must not be quoted.
            headers: What every request carries, the key in one of them.
        """
        self._options = options
        self._key = key
        self._headers = dict(headers)
        verify = True if options.ca_file is None else ssl.create_default_context(cafile=options.ca_file)
        self._client = httpx.AsyncClient(
            verify=verify,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(options.timeout_s, connect=CONNECT_S),
            # A connection that is kept may be closed while a request is on its way: nobody would know if it was paid.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """End every connection."""
        await self._client.aclose()

    async def post(self, path: str, body: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Send one request and read its answer, a JSON object.

        Args:
            path: Below the base URL.
            body: What is asked.
            key: Sent as `Idempotency-Key`, for vendors that know it.

        Raises:
            TransientFailure: The vendor is overloaded or out of reach, or its answer was cut or broken.
            PermanentFailure: The vendor does not know us, the model or the request; or this is not its address.
            LlmRefused: The prompt is too long for the model, or against its rules.
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
            raise TransientFailure(f"no whole answer within {self._options.timeout_s:g} s", paid=True) from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.WriteError) as error:
            raise TransientFailure(f"no connection: {self._quote(str(error)) or type(error).__name__}") from error
        except httpx.HTTPError as error:
            detail = self._quote(str(error)) or type(error).__name__
            raise TransientFailure(f"the connection broke before the answer was whole: {detail}", paid=True) from error

    async def _request(self, path: str, body: Mapping[str, Any], key: str) -> httpx.Request:
        """A request to an address that was looked up and checked: what is called is what was checked."""
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
            raise PermanentFailure(f"{host} stands for a private address; say private_network = true if that is meant")
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
            raise PermanentFailure(f"answers with {shown} instead of JSON; is base_url right?", paid=True)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise PermanentFailure("answers compressed, which it was told not to do", paid=True)

    async def _body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MOST_BODY_BYTES:
                raise TransientFailure(f"the answer is longer than {MOST_BODY_BYTES} bytes", paid=True)
        return bytes(body)

    async def _start_of(self, response: httpx.Response) -> str:
        """The beginning of an error's body; nothing of it is worth another failure."""
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
            raise TransientFailure("the answer is not JSON", paid=True) from error
        if not isinstance(parsed, dict):
            raise TransientFailure("the answer is JSON, but no object", paid=True)
        return parsed

    def _failure(self, status: int, headers: httpx.Headers, text: str) -> BackendError:
        """What a status means, with the vendor's own words where they help."""
        said = self._quote(_message(text))
        words = f"status {status}" + (f": {said}" if said else "")
        if status in (401, 403):
            return PermanentFailure(f"the key is not accepted (status {status})")
        if 300 <= status < 400:
            return PermanentFailure(
                f"answers with a redirect (status {status}), which is not followed; is base_url right?"
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
        """A stranger's words: one line, short, without what could steer a terminal, and never with the key."""
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
    """A completion with its price.

    Args:
        prompt: What was asked.
        surroundings: They know the price.
        text: What was answered.
        model: Which model, as it names itself.
        tokens: Of prompt and answer; None where the vendor does not count, and as many are assumed as there could be.
        truncated: Whether the answer ran into a limit.
    """
    text = clean(text)
    input_tokens, output_tokens = tokens or (most_tokens(prompt.system, prompt.user), most_tokens(text))
    cost_usd = surroundings.cost(input_tokens, output_tokens)
    return Completion(text, clean(model)[:200], input_tokens, output_tokens, cost_usd, truncated)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a vendor wants us to wait: `Retry-After` in seconds or as a date; None if it says nothing usable."""
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
    """The message in an error's body, where it has the form that most vendors use; else the body."""
    try:
        error = json.loads(text)
        for step in ("error", "message"):
            error = error.get(step, error) if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        return text
    return error if isinstance(error, str) else text
