"""HTTP transport of backends: addresses, proxies, deadlines and sizes.

Responses are untrusted. A failure says whether the vendor may charge for the call (`paid`): it may once a request was
sent and no refusal came back. Such a call must not be repeated.
"""

import asyncio
import json
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx

from service.llm.base import BackendError, PermanentFailure, TransientFailure
from service.llm.event_stream import read_events
from service.llm.options import ApiKey, HttpOptions, from_environment, is_global
from service.llm.vendor_failures import QUOTED, failure_inside, failure_of, quote

CONNECT_S = 10.0
"""Seconds for name resolution, connection and TLS handshake; far more than a working network takes."""
MOST_BODY_BYTES = 8 * 2**20
"""Maximum bytes of a response: a hundred times the longest kernel with all its reasoning."""
LAST_EVENT = re.compile(
    rb"^(?:data: ?\[DONE\]|event: ?(?:message_stop|response\.(?:completed|incomplete|failed|cancelled))\b)", re.M
)
"""Pattern of the last event of a stream, in the APIs that have one."""
PACKED = ("gzip", "x-gzip", "deflate")
"""Encodings that are unpacked: some gateways compress although the request forbids it."""
FOREIGN_ENCODINGS = re.compile(r"\b(?:br|zstd|compress|dcb|dcz)\b|,")
"""Pattern of encodings that are not unpacked. Some servers name a character set where an encoding belongs."""
COMMENTS = re.compile(r"\A(?:\s*:[^\n]*(?:\n|\Z))+")
"""Comments in front of a response, with which gateways (OpenRouter) keep the connection open."""
MOST_ERROR_BYTES = 16 * QUOTED
"""Maximum bytes of an error's body that are read."""


class VendorClient:
    """Client that posts JSON to one vendor. It follows no redirect, keeps no cookie or connection.

    It uses a proxy only if the options name one.
    """

    def __init__(self, options: HttpOptions, key: ApiKey | None, headers: Mapping[str, str]) -> None:
        """Prepare calls with some headers, which carry the key; quoted messages never show it.

        Raises:
            InvalidInput: If the options name an environment variable that is not set.
        """
        own = {name: from_environment(value) for name, value in options.headers.items()}
        proxy = from_environment(options.proxy) if options.proxy else None
        hidden = [value for name, value in own.items() if options.headers[name] != value]
        hidden += [proxy] if proxy and "@" in proxy else []
        self._options = options
        self._key = ApiKey(key.secret if key else "", *hidden)
        self._headers = {**headers, **own}
        verify = True if options.ca_file is None else ssl.create_default_context(cafile=options.ca_file)
        self._client = httpx.AsyncClient(
            verify=verify,
            trust_env=False,
            proxy=proxy,
            follow_redirects=False,
            timeout=httpx.Timeout(options.timeout_s, connect=CONNECT_S),
            # The vendor may close a kept connection while a request is sent; whether it was charged would be unknown.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def post(self, path: str, body: Mapping[str, Any], key: str) -> dict[str, Any] | list[dict[str, Any]]:
        """Send one request. Returns its answer, a JSON object, or the events of a stream.

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
        received = bytearray()
        try:
            async with asyncio.timeout(self._options.timeout_s):
                return await self._exchange(request, received)
        except (TimeoutError, httpx.HTTPError) as error:
            failure = self._failure_of(error)
            events = read_events(received.decode(errors="replace")) if failure.paid else []
            if not events:
                raise failure from error
            # The events so far may be a whole answer, which was paid for; without a text, the error counts.
            return [*events, {"type": "error", "error": {"type": "broken stream", "message": failure.detail}}]

    def _failure_of(self, error: TimeoutError | httpx.HTTPError) -> TransientFailure:
        """Return the failure that a timeout or an error of the connection means."""
        detail = quote(str(error), self._key) or type(error).__name__
        match error:
            case TimeoutError():
                return TransientFailure(f"no complete response in {self._options.timeout_s:g} s", paid=True)
            case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout() | httpx.WriteError():
                return TransientFailure(f"no connection: {detail}")
            case _:
                return TransientFailure(f"the connection broke before the response ended: {detail}", paid=True)

    async def _request(self, path: str, body: Mapping[str, Any], key: str) -> httpx.Request:
        """Build a request to the resolved and checked address, so that exactly that address is called."""
        parts = urlsplit(self._options.base_url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        # A proxy resolves names by itself, perhaps to others than this machine would.
        address = host if self._options.proxy else await self._resolve(host, port)
        url = httpx.URL(self._url(path)).copy_with(host=address, port=port).copy_merge_params(self._options.query)
        headers = {
            **self._headers,
            "Host": parts.netloc,
            "Accept": "application/json, text/event-stream",
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

    async def _exchange(self, request: httpx.Request, received: bytearray) -> dict[str, Any] | list[dict[str, Any]]:
        """Send a request and return its answer. The bytes of a stream are in `received` as they come."""
        response = await self._client.send(request, stream=True)
        try:
            status = response.status_code
            if not 200 <= status < 300:
                raise failure_of(status, response.headers, await self._start_of(response), self._key)
            kind = response.headers.get("content-type", "")
            if "event-stream" in kind:
                await self._read_stream(response, received)
                return self._parse(bytes(received), kind)
            return self._parse(b"".join([chunk async for chunk in self._unpacked(response)]), kind)
        finally:
            await response.aclose()

    def _url(self, path: str) -> str:
        """Join the base URL and a path; some people write a part of the path, or all of it, into the base URL."""
        base = self._options.base_url
        if base.endswith(path):
            return base
        version = "/" + path.split("/")[1]
        return base + (path.removeprefix(version) if path != version and base.endswith(version) else path)

    async def _read_stream(self, response: httpx.Response, body: bytearray) -> None:
        """Read a stream. It is over with its last event, although some vendors keep the connection open."""
        async for chunk in self._unpacked(response):
            body += chunk
            if body.endswith((b"\n\n", b"\r\n\r\n")) and LAST_EVENT.search(_last_block(body)):
                break

    async def _unpacked(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Read a body of bounded size, and unpack it.

        Raises:
            PermanentFailure: If it is compressed in a way that is not known, or broken.
            TransientFailure: If it is too long.
        """
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if FOREIGN_ENCODINGS.search(encoding):
            raise PermanentFailure(
                f"the response is compressed ({quote(encoding, None)}), which is not read", paid=True
            )
        unpacker, size = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in PACKED else None, 0
        try:
            async for chunk in response.aiter_raw():
                found = unpacker.decompress(chunk, MOST_BODY_BYTES + 1 - size) if unpacker else chunk
                size += len(found)
                if size > MOST_BODY_BYTES:
                    raise TransientFailure(f"the response is longer than {MOST_BODY_BYTES} bytes", paid=True)
                yield found
        except zlib.error as error:
            raise PermanentFailure("the response is compressed and broken", paid=True) from error
        if unpacker and not unpacker.eof:
            raise PermanentFailure("the response is compressed and ends too early", paid=True)

    async def _start_of(self, response: httpx.Response) -> str:
        """Read the beginning of an error's body; empty if that fails."""
        body = bytearray()
        try:
            async for chunk in self._unpacked(response):
                body += chunk
                if len(body) > MOST_ERROR_BYTES:
                    break
        except (httpx.HTTPError, BackendError):
            pass  # as far as it came
        return body[:MOST_ERROR_BYTES].decode(errors="replace")

    def _parse(self, body: bytes, kind: str) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the JSON object or the events in a body, whatever its type says. Broken characters are replaced."""
        text = COMMENTS.sub("", body.decode(json.detect_encoding(body), errors="replace"))
        kind = kind.partition(";")[0].strip().lower()
        if kind == "text/event-stream" or text.lstrip().startswith(("data:", "event:", "id:", "retry:")):
            events = read_events(text)
            if events or LAST_EVENT.search(body):
                return events
        parsed = self._inner(_json_in(text))
        if parsed is None:
            if not text.strip():
                raise TransientFailure("the response is empty", paid=True)
            if kind in ("application/json", "application/problem+json"):
                raise TransientFailure("the response is not JSON", paid=True)
            shown, words = quote(kind, self._key) or "nothing", quote(text[:QUOTED], self._key)
            said = "" if words.startswith("<") else f" ({words})"
            raise PermanentFailure(f"the response is {shown} instead of JSON{said}; is base_url right?", paid=True)
        if isinstance(parsed, list) and parsed and isinstance(parsed[0], dict) and "error" in parsed[0]:
            raise failure_inside(parsed[0]["error"], self._key)
        if isinstance(parsed, list) and any(
            each.keys() & {"choices", "message"} for each in parsed if isinstance(each, dict)
        ):
            return [each for each in parsed if isinstance(each, dict)]
        if not isinstance(parsed, dict):
            raise TransientFailure("the response is not a JSON object", paid=True)
        return parsed

    def _inner(self, parsed: object) -> object:
        """Return the JSON value that a JSON text holds, or that AWS's gateway put into a `body` with a status."""
        if isinstance(parsed, dict) and isinstance(body := parsed.get("body"), str) and "statusCode" in parsed:
            status, parsed = parsed["statusCode"], body
            if isinstance(status, int) and status >= 400:
                raise failure_of(status, {}, body, self._key)
        return _json_in(parsed) if isinstance(parsed, str) else parsed


def _last_block(body: bytearray) -> bytes:
    """Return the last event of a stream whose bytes end with a blank line."""
    end = len(body.rstrip(b"\r\n"))
    return bytes(body[max(body.rfind(b"\n\n", 0, end), body.rfind(b"\n\r\n", 0, end)) + 1 :])


def _json_in(text: str) -> object:
    """Return the JSON value of a text, or the list of those on its lines; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [json.loads(line) for line in lines] if len(lines) > 1 else None
    except (ValueError, RecursionError):
        return None
