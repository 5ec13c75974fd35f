"""Asynchronous client, for programs with an event loop. The blocking client wraps it."""

import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, TypeVar, Unpack

import httpx
from pydantic import BaseModel, JsonValue

from kernelreef import models, streams
from kernelreef.models import Document
from kernelreef.packages import Package
from kernelreef.rooms import room
from kernelreef.states import CandidateState, SearchState
from kernelreef.transport import TIMEOUT_S, RestTransport, at

Kind = TypeVar("Kind")

DEFAULT_URL = "http://127.0.0.1:8700"
"""Default address of `reef serve`."""


class SearchOptions(TypedDict, total=False):
    """Options of a search besides its operator; the service chooses the missing ones."""

    devices: Sequence[str]
    emitters: Sequence[str]
    axes: Sequence[str]
    evaluations: int
    seed: int
    priority: int
    llm: Mapping[str, JsonValue]
    stop: Mapping[str, JsonValue]
    selection: Mapping[str, bool]
    name: str
    tags: Sequence[str]
    notes: str
    admit: bool
    compiler: str


class SearchChanges(TypedDict, total=False):
    """Changes to a search; missing values stay as they are. Name, tags and notes can be changed after its end, too.

    `stop` and `tags` replace all that there were; empty ones remove them.
    """

    evaluations: int
    priority: int
    stop: Mapping[str, JsonValue]
    name: str
    tags: Sequence[str]
    notes: str


class SearchFilters(TypedDict, total=False):
    """Conditions that listed searches meet, all of them, and their order.

    `tag` is one tag or several; `owner` is a token's id, empty for the machine's own user; `text` is part of a search's
    name, notes or operator name. `sort` is created, name, operator or best, with a minus sign for the reverse order.
    """

    state: Sequence[SearchState | str]
    operator: str
    device: str
    owner: str
    tag: str | Sequence[str]
    text: str
    sort: str


class CandidateFilters(TypedDict, total=False):
    """Conditions that listed candidates meet, all of them, and their order.

    `cell` is a cell of `device` that they were offered to, by default of the first device. Without a cell, `device` is
    one that they are correct on. `text` is part of the source, the note or the reason. `sort` is created or objective,
    with a minus sign for the reverse order; sorted by their objective, they are those with one.
    """

    outcome: str
    emitter: str
    state: CandidateState | str
    device: str
    cell: int
    text: str
    sort: str


class Connection(TypedDict, total=False):
    """Connection options that differ from the defaults.

    `verify` is True to check the service's certificate, or a file of CA certificates to check it with. `timeout_s`
    limits the time of an answer, `attempts` the number of times that a request is sent. `transport` carries requests in
    place of the network.
    """

    verify: bool | str | Path | ssl.SSLContext
    timeout_s: float
    attempts: int
    transport: httpx.AsyncBaseTransport


class AsyncReef:
    """Client of one service. Use it as an async context manager, or call `close`.

    Every method may raise a `ServiceError`: one of `kernelreef.errors`, `RequestRefused` or `ServiceUnreachable`. A
    request is retried if its failure may pass. No request is carried out twice.
    """

    def __init__(self, url: str | None = None, token: str | None = None, **connection: Unpack[Connection]) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Address of the service; `REEF_URL`, or this machine's, if not given.
            token: API token; `REEF_TOKEN` if not given, none if empty.
            connection: Connection options.
        """
        url = url or os.environ.get("REEF_URL") or DEFAULT_URL
        token = os.environ.get("REEF_TOKEN") if token is None else token
        self.wire = RestTransport(url, token, **connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.wire.close()

    async def submit(
        self, operator: str | Mapping[str, JsonValue] | BaseModel, **options: Unpack[SearchOptions]
    ) -> models.Search:
        """Submit a search for an operator: a name, a digest, or a spec. Returns while the search runs."""
        return await self.wire.act(models.Search, "POST", "/searches", {"operator": _document(operator), **options})

    async def search(self, id: str) -> models.Search:
        """Return one search."""
        return await self.wire.read(models.Search, at("/searches/{}", id))

    def searches(self, **filters: Unpack[SearchFilters]) -> AsyncIterator[models.Search]:
        """Iterate over the searches, newest first unless `sort` says otherwise."""
        return self.wire.list(models.Search, "/searches", **filters)

    async def progress(self, search: str) -> models.Progress:
        """Return the progress of a search."""
        return await self.wire.read(models.Progress, at("/searches/{}/progress", search))

    async def pause(self, search: str) -> models.Search:
        """Pause a search: it proposes nothing more; candidates in flight still count."""
        return await self._steer(search, "pause")

    async def resume(self, search: str) -> models.Search:
        """Resume a paused search, or a done one whose limits leave room."""
        return await self._steer(search, "resume")

    async def stop(self, search: str) -> models.Search:
        """Stop a search for good; its results stay."""
        return await self._steer(search, "stop")

    async def update(self, search: str, **changes: Unpack[SearchChanges]) -> models.Search:
        """Change evaluations, priority (1 to 9) or stop rules of an open or done search, or the labels of any."""
        return await self.wire.act(models.Search, "PATCH", at("/searches/{}", search), dict(changes))

    async def delete(self, search: str) -> None:
        """Delete an ended search with its candidates and results, for good."""
        await self.wire.remove(at("/searches/{}", search))

    change = update

    async def pin(
        self, search: str, *, cell: int | None = None, candidate: str | None = None, device: str | None = None
    ) -> models.Pin:
        """Pin a cell's elite, or a candidate: it becomes a preferred parent."""
        given = {"cell": cell, "candidate": candidate, "device": device}
        body = {name: value for name, value in given.items() if value is not None}
        return await self.wire.act(models.Pin, "POST", at("/searches/{}/pins", search), body)

    def pins(self, search: str) -> AsyncIterator[models.Pin]:
        """List the pins of a search, oldest first."""
        return self.wire.list(models.Pin, at("/searches/{}/pins", search))

    async def unpin(self, search: str, pin: str) -> None:
        """Remove a pin."""
        await self.wire.remove(at("/searches/{}/pins/{}", search, pin))

    async def hint(self, search: str, text: str) -> models.Hint:
        """Add a hint for the models that write candidates."""
        return await self.wire.act(models.Hint, "POST", at("/searches/{}/hints", search), {"text": text})

    def hints(self, search: str) -> AsyncIterator[models.Hint]:
        """List the hints of a search, oldest first."""
        return self.wire.list(models.Hint, at("/searches/{}/hints", search))

    async def forget(self, search: str, hint: str) -> None:
        """Remove a hint."""
        await self.wire.remove(at("/searches/{}/hints/{}", search, hint))

    async def archive(self, search: str, device: str | None = None) -> models.Archive:
        """Return the map of one device, by default the first: its axes, and every filled cell."""
        return await self.wire.read(models.Archive, at("/searches/{}/archive", search), device=device)

    def elites(self, search: str, device: str | None = None) -> AsyncIterator[models.Elite]:
        """Iterate over the elites of one device, best first."""
        return self.wire.list(models.Elite, at("/searches/{}/elites", search), device=device)

    async def best(self, search: str, device: str | None = None) -> models.Elite | None:
        """Return the elite with the largest objective on one device; None if there is no elite yet."""
        elites = self.wire.list(models.Elite, at("/searches/{}/elites", search), device=device, limit=1)
        return await anext(elites, None)

    async def kernel(self, search: str, cell: int, device: str | None = None) -> tuple[str, str]:
        """Return the elite of a cell as a runnable Python file: its name and its text."""
        name, content = await self.wire.file(at("/searches/{}/elites/{}/kernel", search, cell), device=device)
        return name, content.decode()

    async def export(self, search: str, path: str | Path) -> Path:
        """Write all results of a search into a zip file, which appears when it is complete."""
        target = Path(path)
        part = target.with_name(f"{target.name}.part")
        try:
            with part.open("wb") as file:
                async with self.wire.stream(at("/searches/{}/export", search), {}, TIMEOUT_S) as answer:
                    async for chunk in answer.aiter_bytes():
                        file.write(chunk)
            return part.replace(target).resolve()
        finally:
            part.unlink(missing_ok=True)

    async def package(
        self,
        search: str,
        folder: str | Path,
        *,
        device: str | None = None,
        backward: str | None = None,
        name: str | None = None,
        shapes: Sequence[Mapping[str, int]] = (),
        against: str | None = None,
    ) -> Package:
        """Write a search's fastest elites as an installable package. Traces and judges them here, which needs torch.

        Args:
            search: Id of the search.
            folder: Folder to write to; it must be empty.
            device: Device of the elites; the search's first if None.
            backward: A search for the same operator with gradients, whose elites serve calls with gradients.
            name: Name to import; `<operator>_kernels` if None.
            shapes: Sizes of shapes to time kernels at, besides those that are drawn.
            against: A search of the same operator at other shapes, where the package is timed beside its best elite.
        """
        offers = room("service.export.offers")
        package: Package = await offers.package_of(
            self, search, device=device, backward=backward, name=name, shapes=shapes, against=against
        )
        package.write(Path(folder))
        return package

    def candidates(self, search: str, **filters: Unpack[CandidateFilters]) -> AsyncIterator[models.CandidateSummary]:
        """Iterate over the candidates of a search, newest first unless `sort` says otherwise."""
        return self.wire.list(models.CandidateSummary, at("/searches/{}/candidates", search), **filters)

    async def candidate(self, id: str) -> models.Candidate:
        """Return one candidate: source, variants with their plans in words, and every report."""
        return await self.wire.read(models.Candidate, at("/candidates/{}", id))

    async def submit_kernel(
        self, search: str, source: str, *, note: str = "", parents: Sequence[str] = ()
    ) -> models.CandidateSummary:
        """Submit a kernel to a running search with the emitter `agent`: one of its evaluations."""
        body = {"source": source, "note": note, "parents": list(parents)}
        return await self.wire.act(models.CandidateSummary, "POST", at("/searches/{}/candidates", search), body)

    async def check_kernel(self, search: str, source: str) -> models.SourceCheck:
        """Trace and compile a source for a running search, and predict its times, without an evaluation."""
        return await self.wire.act(models.SourceCheck, "POST", at("/searches/{}/checks", search), {"source": source})

    async def bundle(self, candidate: str, variant: int = 0) -> Document:
        """Return the launch plans of one variant with their kernels."""
        return await self.wire.read(Document, at("/candidates/{}/bundle", candidate), variant=variant)

    async def certificate(
        self, candidate: str, *, device: str | None = None, variant: int | None = None, source: bool = True
    ) -> Document:
        """Return a candidate's certificate: all evidence for its verdict, with or without its source."""
        address = at("/candidates/{}/certificate", candidate)
        return await self.wire.read(Document, address, device=device, variant=variant, source=source)

    def events(self, search: str, *, after: str | None = None) -> AsyncIterator[streams.Event]:
        """Stream the events of a search until it ends; reconnects by itself.

        Args:
            search: Id of the search.
            after: Id of the last event seen; None to begin with `stream.reset`, and the search as it is.
        """
        return streams.follow(self.wire, search, lambda: self.search(search), after)

    async def wait(self, search: str) -> models.Search:
        """Wait until a search has ended, and return it."""
        async for _ in self.events(search):
            pass
        return await self.search(search)

    def operators(self, *, catalogue: bool | None = None) -> AsyncIterator[models.OperatorSummary]:
        """Iterate over the operators by name; with `catalogue`, only those of the catalogue or only the others."""
        return self.wire.list(models.OperatorSummary, "/operators", catalogue=catalogue)

    async def operator(self, name: str) -> Document:
        """Return one operator in full, by name or digest."""
        return await self.wire.read(Document, at("/operators/{}", name))

    async def add_operator(self, spec: Mapping[str, JsonValue] | BaseModel) -> models.OperatorSummary:
        """Submit an operator; later searches refer to it by name or digest."""
        return await self.wire.act(models.OperatorSummary, "POST", "/operators", _document(spec))

    async def mutation_report(self, operator: str) -> Document:
        """Return the latest mutation report of an operator's checks."""
        return await self.wire.read(Document, at("/operators/{}/mutation-report", operator))

    gate = mutation_report
    """Former name of `mutation_report`, for one release."""

    def workers(self) -> AsyncIterator[dict[str, JsonValue]]:
        """List the workers seen lately, by id."""
        return self.wire.list(dict[str, JsonValue], "/workers")

    def tokens(self) -> AsyncIterator[models.Token]:
        """List the API tokens, newest first, without their secrets."""
        return self.wire.list(models.Token, "/tokens")

    async def create_token(
        self, name: str, scopes: Sequence[str], expires_at: datetime | None = None
    ) -> models.IssuedToken:
        """Create an API token. Its text is in this answer only."""
        body = {"name": name, "scopes": list(scopes), "expires_at": expires_at.isoformat() if expires_at else None}
        return await self.wire.act(models.IssuedToken, "POST", "/tokens", body)

    async def revoke_token(self, id: str) -> models.Token:
        """Revoke a token, and end its sessions."""
        return await self.wire.act(models.Token, "DELETE", at("/tokens/{}", id))

    def audit(self, token: str | None = None) -> AsyncIterator[models.AuditEntry]:
        """Iterate over the audit log, newest first; of one token if it is given."""
        return self.wire.list(models.AuditEntry, "/audit", token=token)

    async def _steer(self, search: str, move: str) -> models.Search:
        return await self.wire.act(models.Search, "POST", at("/searches/{}/{}", search, move))


def _document(operator: str | Mapping[str, JsonValue] | BaseModel) -> object:
    return operator.model_dump(mode="json") if isinstance(operator, BaseModel) else operator
