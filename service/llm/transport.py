"""HTTP transport of backends: addresses, proxies, deadlines and sizes.

Responses are untrusted. A failure says whether the vendor may charge for the call (`paid`): it may once a request was
sent and no refusal came back. Such a call must not be repeated.
"""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from service.llm.base import PermanentFailure, TransientFailure
from service.llm.event_stream import read_events
from service.llm.options import ApiKey, HttpOptions, from_environment, is_global
from service.llm.vendor_failures import QUOTED, failure_inside, failure_of, quote

CONNECT_S = 10.0
"""Seconds for name resolution, connection and TLS handshake; far more than a working network takes."""
MOST_BODY_BYTES = 8 * 2**20
"""Maximum bytes of a response: a hundred times the longest kernel with all its reasoning."""
LAST_EVENT = re.compile(rb"data: ?\[DONE\]|event: ?message_stop")
"""Pattern of the last event of a stream, in the APIs that have one."""
LAST_BYTES = 200
"""Bytes at the end of a stream that are searched for its last event."""
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
        try:
            async with asyncio.timeout(self._options.timeout_s):
                return await self._exchange(request)
        except TimeoutError as error:
            raise TransientFailure(f"no complete response in {self._options.timeout_s:g} s", paid=True) from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.WriteError) as error:
            raise TransientFailure(f"no connection: {quote(str(error), self._key) or type(error).__name__}") from error
        except httpx.HTTPError as error:
            detail = quote(str(error), self._key) or type(error).__name__
            raise TransientFailure(f"the connection broke before the response ended: {detail}", paid=True) from error

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

    async def _exchange(self, request: httpx.Request) -> dict[str, Any] | list[dict[str, Any]]:
        response = await self._client.send(request, stream=True)
        try:
            status = response.status_code
            if not 200 <= status < 300:
                raise failure_of(status, response.headers, await self._start_of(response), self._key)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise PermanentFailure("the response is compressed although the request forbids it", paid=True)
            return self._parse(await self._body(response), response.headers.get("content-type", ""))
        finally:
            await response.aclose()

    def _url(self, path: str) -> str:
        """Join the base URL and a path; some people write a part of the path, or all of it, into the base URL."""
        base = self._options.base_url
        if base.endswith(path):
            return base
        version = "/" + path.split("/")[1]
        return base + (path.removeprefix(version) if path != version and base.endswith(version) else path)

    async def _body(self, response: httpx.Response) -> bytes:
        """Read a body. A stream is over with its last event, although some vendors keep the connection open."""
        body = bytearray()
        streamed = "event-stream" in response.headers.get("content-type", "")
        async for chunk in response.aiter_raw():
            body += chunk
            if streamed and body.endswith((b"\n\n", b"\r\n\r\n")) and LAST_EVENT.search(bytes(body[-LAST_BYTES:])):
                break
            if len(body) > MOST_BODY_BYTES:
                raise TransientFailure(f"the response is longer than {MOST_BODY_BYTES} bytes", paid=True)
        return bytes(body)

    async def _start_of(self, response: httpx.Response) -> str:
        """Read the beginning of an error's body; empty if that fails."""
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_ERROR_BYTES:
                    break
        except httpx.HTTPError:
            return ""
        return body[:MOST_ERROR_BYTES].decode(errors="replace")

    def _parse(self, body: bytes, kind: str) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the JSON object or the events in a body, whatever its type says. Broken UTF-8 is replaced."""
        text = body.decode("utf-8-sig", errors="replace")
        kind = kind.partition(";")[0].strip().lower()
        if kind == "text/event-stream" or text.lstrip().startswith(("data:", "event:", ":")):
            events = read_events(text)
            if events or LAST_EVENT.search(body):
                return events
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError) as error:
            if kind in ("application/json", "application/problem+json"):
                raise TransientFailure("the response is not JSON", paid=True) from error
            shown = quote(kind, self._key) or "nothing"
            raise PermanentFailure(f"the response is {shown} instead of JSON; is base_url right?", paid=True) from error
        if isinstance(parsed, list) and parsed and isinstance(parsed[0], dict) and "error" in parsed[0]:
            raise failure_inside(parsed[0]["error"], self._key)
        if not isinstance(parsed, dict):
            raise TransientFailure("the response is not a JSON object", paid=True)
        return parsed
