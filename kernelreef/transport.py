"""HTTP requests to the service: with a token, an idempotency key, and retries."""

import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
import stamina
from pydantic import BaseModel, TypeAdapter, ValidationError

from kernelreef.errors import InvalidInput, NotFound, RateLimited, ServiceError, Unavailable
from kernelreef.problems import ServiceUnreachable, raised
from kernelreef.validation import invalid

Kind = TypeVar("Kind")

PREFIX = "/api/v1"
"""Path of the resources below the service's address."""
TIMEOUT_S = 30.0
"""Timeout of one answer, seconds. The slowest, of an archive with thousands of elites, takes a few."""
CONNECT_S = 5.0
"""Timeout of a connection, seconds."""
ATTEMPTS = 4
"""Maximum number of attempts. Their waits add up to some seconds, as long as a coordinator takes to restart."""
WAIT_INITIAL_S = 0.2
WAIT_MOST_S = 5.0
LONGEST_WAIT_S = 60
"""Maximum wait that a `Retry-After` may ask for, seconds; the caller decides about longer ones."""


class ListPart(BaseModel, Generic[Kind]):
    """One page of a list. `next` is the cursor of the next page; None at the end."""

    items: list[Kind]
    next: str | None


class RestTransport:
    """Connection pool to one service."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        verify: bool | str | Path | ssl.SSLContext = True,
        timeout_s: float = TIMEOUT_S,
        attempts: int = ATTEMPTS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Address of the service, such as `https://reef.example.org`.
            token: API token; None if the service needs none.
            verify: True to check the service's certificate, or a file of CA certificates to check it with.
            timeout_s: Timeout of one answer, seconds.
            attempts: Maximum number of attempts before the last failure is raised.
            transport: Transport in place of the network.

        Raises:
            InvalidInput: If the address has no scheme.
        """
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"'{url}' must begin with http:// or https://, such as http://127.0.0.1:8700", "url")
        headers = {"User-Agent": "kernelreef"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = httpx.AsyncClient(
            base_url=f"{url.rstrip('/')}{PREFIX}",
            headers=headers,
            verify=_context(verify),
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s)),
            transport=transport,
            follow_redirects=False,
        )
        self._attempts = attempts

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def read(self, kind: type[Kind], path: str, **query: object) -> Kind:
        """Read the document at a path.

        Raises:
            ServiceError: If the service answers with an error.
            ServiceUnreachable: If it does not answer.
        """
        return _parsed(kind, await self._send("GET", path, query=query))

    async def act(self, kind: type[Kind], method: str, path: str, body: object = None) -> Kind:
        """Send a change, and return the answer.

        Raises:
            ServiceError: If it refuses, or fails.
            ServiceUnreachable: If it does not answer.
        """
        return _parsed(kind, await self._send(method, path, body=body))

    async def remove(self, path: str) -> None:
        """Delete the resource at a path.

        Raises:
            NotFound: If there is no such resource.
            ServiceError: If the service refuses, or fails.
        """
        await self._send("DELETE", path)

    async def file(self, path: str, **query: object) -> tuple[str, bytes]:
        """Read the file at a path: its name and content."""
        answer = await self._send("GET", path, query=query)
        return _name(answer), answer.content

    async def list(self, kind: type[Kind], path: str, **query: object) -> AsyncIterator[Kind]:
        """Iterate over a list; pages are loaded as needed.

        Yields:
            Items in the list's order.
        """
        cursor: str | None = None
        while True:
            part = await self.read(ListPart[kind], path, **query, cursor=cursor)  # type: ignore[valid-type]
            for item in part.items:
                yield item
            if (cursor := part.next) is None:
                return

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], read_s: float | None
    ) -> AsyncIterator[httpx.Response]:
        """Open a streamed answer. It is not retried.

        Args:
            path: Path of the resource.
            headers: Additional headers.
            read_s: Maximum silence, seconds; None for no limit.

        Raises:
            ServiceError: If the service answers with an error.
            ServiceUnreachable: If it does not answer, or the connection breaks.
        """
        timeout = httpx.Timeout(connect=CONNECT_S, read=read_s, write=CONNECT_S, pool=CONNECT_S)
        try:
            async with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    await answer.aread()
                    raise raised(answer)
                yield answer
        except httpx.TransportError as error:
            raise ServiceUnreachable(_described(self._http.base_url, error)) from error

    async def _send(
        self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None
    ) -> httpx.Response:
        # The same key on every attempt, so that a repetition has no second effect.
        headers = {"Idempotency-Key": str(uuid4())} if method == "POST" else {}
        chosen = {
            name: value for name, value in (query or {}).items() if value is not None and value != () and value != []
        }
        async for attempt in stamina.retry_context(
            on=_again, attempts=self._attempts, timeout=None, wait_initial=WAIT_INITIAL_S, wait_max=WAIT_MOST_S
        ):
            with attempt:
                try:
                    return await self._once(method, path, headers, chosen, body)
                except NotFound:
                    if method == "DELETE" and attempt.num > 1:
                        return httpx.Response(204)  # An earlier attempt removed it, but its answer was lost.
                    raise
        raise ServiceUnreachable("no attempt was made")

    async def _once(
        self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, object], body: object
    ) -> httpx.Response:
        try:
            answer = await self._http.request(method, path, headers=headers, params=_parameters(query), json=body)
        except httpx.TransportError as error:
            raise ServiceUnreachable(_described(self._http.base_url, error)) from error
        if answer.status_code >= 300:
            raise raised(answer)
        return answer


def at(path: str, *names: str | int) -> str:
    """Build a path with quoted names, none of which can lead elsewhere."""
    return path.format(*(quote(str(name), safe="").replace(".", "%2E") for name in names))


def _context(verify: bool | str | Path | ssl.SSLContext) -> bool | ssl.SSLContext:
    if isinstance(verify, bool | ssl.SSLContext):
        return verify
    try:
        return ssl.create_default_context(cafile=str(verify))
    except OSError as error:
        raise InvalidInput(f"{verify} holds no certificates: {error}", "verify") from error


def _parameters(query: Mapping[str, object]) -> httpx.QueryParams:
    """Build query parameters; a sequence becomes one parameter several times."""
    found: list[tuple[str, str]] = []
    for name, value in query.items():
        each = value if isinstance(value, list | tuple) else (value,)
        found += [(name, str(one).lower() if isinstance(one, bool) else str(one)) for one in each]
    return httpx.QueryParams(tuple(found))


def _parsed(kind: type[Kind], answer: httpx.Response) -> Kind:
    """Parse a document from an answer.

    Raises:
        ServiceError: If the answer is not such a document: another version of the service, or another service, is at
            this address.
    """
    try:
        return TypeAdapter(kind).validate_json(answer.content)
    except ValidationError as error:
        problem = invalid(error, kind)
        place = f"{problem.field}: " if problem.field else ""
        raise ServiceError(
            f"{answer.request.url.path} sent an answer that this client cannot read: {place}{problem.detail}"
        ) from error


def _name(answer: httpx.Response) -> str:
    """Return the file name from an answer; never a path."""
    said = re.search(r'filename="([A-Za-z0-9_.-]+)"', answer.headers.get("content-disposition", ""))
    return said[1].lstrip(".") if said else "download"


def _described(address: httpx.URL, error: httpx.TransportError) -> str:
    return f"{address.netloc.decode()} does not answer: {str(error) or type(error).__name__}"


def _again(error: Exception) -> bool | float:
    """Return True if the same request may succeed later, or the seconds until then."""
    if isinstance(error, RateLimited):
        return float(error.retry_after_s) if error.retry_after_s <= LONGEST_WAIT_S else False
    return isinstance(error, Unavailable)
