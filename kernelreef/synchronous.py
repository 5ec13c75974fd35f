"""Blocking client: `AsyncReef` on an event loop in a thread of its own."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, Unpack

from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel, JsonValue

from kernelreef import models
from kernelreef.asynchronous import (
    AsyncReef,
    CandidateFilters,
    Connection,
    SearchChanges,
    SearchFilters,
    SearchOptions,
)
from kernelreef.models import Document
from kernelreef.packages import Package
from kernelreef.streams import Event

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Reef:
    """Client of one service: a context manager, or `close` it. Methods and errors are those of `AsyncReef`."""

    def __init__(self, url: str | None = None, token: str | None = None, **connection: Unpack[Connection]) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: Address of the service; `REEF_URL`, or this machine's, if not given.
            token: API token; `REEF_TOKEN` if not given, none if empty.
            connection: Connection options.
        """
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            self._reef = AsyncReef(url, token, **connection)
            stack.callback(self._portal.call, self._reef.close)
            self._resources = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def close(self) -> None:
        """Close every connection."""
        self._resources.close()

    def submit(
        self, operator: str | Mapping[str, JsonValue] | BaseModel, **options: Unpack[SearchOptions]
    ) -> models.Search:
        """Submit a search for an operator: a name, a digest, or a spec. Returns while the search runs."""
        return self._call(self._reef.submit, operator, **options)

    def search(self, id: str) -> models.Search:
        """Return one search."""
        return self._call(self._reef.search, id)

    def searches(self, **filters: Unpack[SearchFilters]) -> Iterator[models.Search]:
        """Iterate over the searches, newest first unless `sort` says otherwise."""
        return self._each(self._reef.searches(**filters))

    def progress(self, search: str) -> models.Progress:
        """Return the progress of a search."""
        return self._call(self._reef.progress, search)

    def pause(self, search: str) -> models.Search:
        """Pause a search: it proposes nothing more; candidates in flight still count."""
        return self._call(self._reef.pause, search)

    def resume(self, search: str) -> models.Search:
        """Resume a paused search."""
        return self._call(self._reef.resume, search)

    def stop(self, search: str) -> models.Search:
        """Stop a search for good; its results stay."""
        return self._call(self._reef.stop, search)

    def update(self, search: str, **changes: Unpack[SearchChanges]) -> models.Search:
        """Change the evaluations, the priority (1 to 9) or the stop rules of an open search, or the labels of any."""
        return self._call(self._reef.update, search, **changes)

    def delete(self, search: str) -> None:
        """Delete an ended search with its candidates and results, for good."""
        self._call(self._reef.delete, search)

    change = update

    def pin(
        self, search: str, *, cell: int | None = None, candidate: str | None = None, device: str | None = None
    ) -> models.Pin:
        """Pin a cell's elite, or a candidate: it becomes a preferred parent."""
        return self._call(self._reef.pin, search, cell=cell, candidate=candidate, device=device)

    def pins(self, search: str) -> Iterator[models.Pin]:
        """List the pins of a search, oldest first."""
        return self._each(self._reef.pins(search))

    def unpin(self, search: str, pin: str) -> None:
        """Remove a pin."""
        self._call(self._reef.unpin, search, pin)

    def hint(self, search: str, text: str) -> models.Hint:
        """Add a hint for the models that write candidates."""
        return self._call(self._reef.hint, search, text)

    def hints(self, search: str) -> Iterator[models.Hint]:
        """List the hints of a search, oldest first."""
        return self._each(self._reef.hints(search))

    def forget(self, search: str, hint: str) -> None:
        """Remove a hint."""
        self._call(self._reef.forget, search, hint)

    def archive(self, search: str, device: str | None = None) -> models.Archive:
        """Return the map of one device, by default the first: its axes, and every filled cell."""
        return self._call(self._reef.archive, search, device)

    def elites(self, search: str, device: str | None = None) -> Iterator[models.Elite]:
        """Iterate over the elites of one device, best first."""
        return self._each(self._reef.elites(search, device))

    def best(self, search: str, device: str | None = None) -> models.Elite | None:
        """Return the elite with the largest objective on one device; None if there is no elite yet."""
        return self._call(self._reef.best, search, device)

    def kernel(self, search: str, cell: int, device: str | None = None) -> tuple[str, str]:
        """Return the elite of a cell as a runnable Python file: its name and its text."""
        return self._call(self._reef.kernel, search, cell, device)

    def export(self, search: str, path: str | Path) -> Path:
        """Write all results of a search into a zip file, which appears when it is complete."""
        return self._call(self._reef.export, search, path)

    def package(
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
        """Write a search's fastest elites as an installable package. Traces and judges them here, which needs torch."""
        return self._call(
            self._reef.package,
            search,
            folder,
            device=device,
            backward=backward,
            name=name,
            shapes=shapes,
            against=against,
        )

    def candidates(self, search: str, **filters: Unpack[CandidateFilters]) -> Iterator[models.CandidateSummary]:
        """Iterate over the candidates of a search, newest first unless `sort` says otherwise."""
        return self._each(self._reef.candidates(search, **filters))

    def candidate(self, id: str) -> models.Candidate:
        """Return one candidate: source, variants with their plans in words, and every report."""
        return self._call(self._reef.candidate, id)

    def submit_kernel(
        self, search: str, source: str, *, note: str = "", parents: Sequence[str] = ()
    ) -> models.CandidateSummary:
        """Submit a kernel to a running search with the emitter `agent`: one of its evaluations."""
        return self._call(self._reef.submit_kernel, search, source, note=note, parents=parents)

    def check_kernel(self, search: str, source: str) -> models.SourceCheck:
        """Trace and compile a source for a running search, and predict its times, without an evaluation."""
        return self._call(self._reef.check_kernel, search, source)

    def bundle(self, candidate: str, variant: int = 0) -> Document:
        """Return the launch plans of one variant with their kernels."""
        return self._call(self._reef.bundle, candidate, variant)

    def certificate(
        self, candidate: str, *, device: str | None = None, variant: int | None = None, source: bool = True
    ) -> Document:
        """Return a candidate's certificate: all evidence for its verdict, with or without its source."""
        return self._call(self._reef.certificate, candidate, device=device, variant=variant, source=source)

    def events(self, search: str, *, after: str | None = None) -> Iterator[Event]:
        """Stream the events of a search until it ends; reconnects by itself."""
        return self._each(self._reef.events(search, after=after))

    def wait(self, search: str) -> models.Search:
        """Wait until a search has ended, and return it."""
        return self._call(self._reef.wait, search)

    def operators(self, *, catalogue: bool | None = None) -> Iterator[models.OperatorSummary]:
        """Iterate over the operators by name; with `catalogue`, only those of the catalogue or only the others."""
        return self._each(self._reef.operators(catalogue=catalogue))

    def operator(self, name: str) -> Document:
        """Return one operator in full, by name or digest."""
        return self._call(self._reef.operator, name)

    def add_operator(self, spec: Mapping[str, JsonValue] | BaseModel) -> models.OperatorSummary:
        """Submit an operator; later searches refer to it by name or digest."""
        return self._call(self._reef.add_operator, spec)

    def mutation_report(self, operator: str) -> Document:
        """Return the latest mutation report of an operator's checks."""
        return self._call(self._reef.mutation_report, operator)

    gate = mutation_report
    """Former name of `mutation_report`, for one release."""

    def workers(self) -> Iterator[dict[str, JsonValue]]:
        """List the workers seen lately, by id."""
        return self._each(self._reef.workers())

    def tokens(self) -> Iterator[models.Token]:
        """List the API tokens, newest first, without their secrets."""
        return self._each(self._reef.tokens())

    def create_token(self, name: str, scopes: Sequence[str], expires_at: datetime | None = None) -> models.IssuedToken:
        """Create an API token. Its text is in this answer only."""
        return self._call(self._reef.create_token, name, scopes, expires_at)

    def revoke_token(self, id: str) -> models.Token:
        """Revoke a token, and end its sessions."""
        return self._call(self._reef.revoke_token, id)

    def audit(self, token: str | None = None) -> Iterator[models.AuditEntry]:
        """Iterate over the audit log, newest first; of one token if it is given."""
        return self._each(self._reef.audit(token))

    def _call(
        self, method: Callable[Taken, Coroutine[object, object, Given]], *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Given:
        async def called() -> Given:
            return await method(*args, **kwargs)

        return self._portal.call(called)

    def _each(self, items: AsyncIterator[Given]) -> Iterator[Given]:
        async def following() -> Given | None:
            return await anext(items, None)

        try:
            while (item := self._portal.call(following)) is not None:
                yield item
        finally:
            if isinstance(items, AsyncGenerator):
                self._portal.call(items.aclose)
