"""One lane a backend: how many calls may be under way, how fast they may begin, and whether any may at all."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiolimiter import AsyncLimiter

from archive.records import SpendingLimits
from service.errors import InvalidInput, NotFound
from service.llm import BACKENDS, Backend, Completion, PermanentFailure, TransientFailure
from service.llm.configuration import FILE, BackendsConfiguration, load_configuration, read_key
from service.llm.options import BackendContext, BackendOptions, HttpOptions, PriceOptions

MINUTE_S = 60.0
MOST_REST_S = 300.0
"""Longest rest that a call waits for; a backend that wants more is left to later calls."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class BackendSnapshot:
    """What may be shown of a backend: no address and no key.

    Attributes:
        name: What searches call it.
        kind: Which file of the socket serves it.
        model: What it is asked for; empty where it has no choice.
        waits: Whether somebody has to claim and answer its prompts.
        parked: Why no call is made, None if calls are.
        rests_s: Seconds until calls go on.
        under_way: Calls under way.
        price: What it costs; None if unknown.
    """

    name: str
    kind: str
    model: str
    waits: bool
    parked: str | None
    rests_s: float
    under_way: int
    price: PriceOptions | None


class BackendLimiter:
    """Limits and state of one backend.

    Attributes:
        name: What searches call it.
        options: What the file says of it.
        price: What it costs; None if unknown.
        backend: What answers; None where it could not be made.
        parked: Why no call is made.
        load: Calls that wait or are under way.
    """

    def __init__(self, name: str, options: BackendOptions, price: PriceOptions | None, backend: Backend | None) -> None:
        self.name = name
        self.options = options
        self.price = price
        self.backend = backend
        self.parked: str | None = None
        self.load = 0
        self._places = asyncio.Semaphore(options.max_concurrency)
        self._calls = _limiter(options.requests_per_minute)
        self._tokens = _limiter(options.tokens_per_minute)
        self._rest_until = 0.0
        self._under_way = 0

    @property
    def waits(self) -> bool:
        """Whether answers come from somebody who has to claim the prompt first."""
        return BACKENDS[self.options.kind].waits

    @property
    def rests_s(self) -> float:
        """Seconds until calls go on."""
        return max(0.0, self._rest_until - time.monotonic())

    @property
    def limits(self) -> SpendingLimits:
        """What one search may spend here."""
        allowed = self.options.per_search
        return SpendingLimits(allowed.calls, allowed.tokens, allowed.usd)

    @property
    def status(self) -> BackendSnapshot:
        """What may be shown of it."""
        model = self.options.model if isinstance(self.options, HttpOptions) else ""
        state = (self.parked, round(self.rests_s, 1), self._under_way)
        return BackendSnapshot(self.name, self.options.kind, model, self.waits, *state, self.price)

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncIterator[Backend]:
        """Wait for a place, and hold it for the length of a call of up to so many tokens.

        Raises:
            PermanentFailure: If the backend is parked.
            TransientFailure: If it rests for longer than a call should wait.
        """
        self.load += 1
        try:
            self.require_open()
            async with self._places:
                await self._ready(tokens)
                backend = self.require_open()
                self._under_way += 1
                try:
                    yield backend
                finally:
                    self._under_way -= 1
        finally:
            self.load -= 1

    def require_open(self) -> Backend:
        """What answers.

        Raises:
            PermanentFailure: If the backend is parked.
        """
        if self.parked is not None or self.backend is None:
            raise PermanentFailure(f"backend '{self.name}' is parked: {self.parked}")
        return self.backend

    def park(self, reason: str) -> None:
        """Make no further call until the file changes or a person says so."""
        self.parked = reason
        log.warning("backend parked", backend=self.name, reason=reason)

    def rest(self, seconds: float) -> None:
        """Begin no call for so long."""
        self._rest_until = max(self._rest_until, time.monotonic() + seconds)

    async def _ready(self, tokens: int) -> None:
        while (rest_s := self.rests_s) > 0:
            if rest_s > MOST_REST_S:
                raise TransientFailure(f"backend '{self.name}' rests", retry_after_s=rest_s)
            await asyncio.sleep(rest_s)
        if self._calls is not None:
            await self._calls.acquire()
        if self._tokens is not None:
            await self._tokens.acquire(min(tokens, self._tokens.max_rate))


class BackendPool:
    """Every backend of the file, made again when the file changes."""

    def __init__(self, folder: Path, wait_for: Callable[[str], Awaitable[Completion]]) -> None:
        """Read the file in the data folder.

        Raises:
            BadInput: If something in it cannot be right; names the field.
        """
        self._folder = folder
        self._wait_for = wait_for
        self._limiters: dict[str, BackendLimiter] = {}
        self._retired: list[Backend] = []
        self._stamp = self._look()
        self._use(load_configuration(folder))

    def refresh(self) -> None:
        """Use what the file says now, if it changed. A lane whose lines are the same goes on as it is."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._use(load_configuration(self._folder))
        except InvalidInput as error:
            log.error("backends stay as they were", field=error.field, detail=error.detail)

    def get(self, name: str) -> BackendLimiter | None:
        """The lane of a name, None if the file has none."""
        self.refresh()
        return self._limiters.get(name)

    def choose(self, names: Sequence[str]) -> BackendLimiter:
        """Of some backends the least busy that takes calls.

        Raises:
            PermanentFailure: If none does; says why.
        """
        self.refresh()
        known = [self._limiters[name] for name in names if name in self._limiters]
        usable = [limiter for limiter in known if limiter.parked is None]
        if not usable:
            reasons = (
                "; ".join(f"{limiter.name}: {limiter.parked}" for limiter in known)
                or "none of its backends is configured"
            )
            raise PermanentFailure(f"no backend can be asked: {reasons}")
        return min(usable, key=lambda limiter: (limiter.rests_s > 0, limiter.load / limiter.options.max_concurrency))

    def statuses(self) -> list[BackendSnapshot]:
        """What may be shown of every backend, by name."""
        self.refresh()
        return [limiter.status for _, limiter in sorted(self._limiters.items())]

    def unpark(self, name: str) -> BackendSnapshot:
        """Try a parked backend again, with its key read anew.

        Raises:
            NotFound: If there is no such backend.
        """
        limiter = self.get(name)
        if limiter is None:
            raise NotFound(f"there is no backend '{name}'")
        if limiter.parked is not None:
            self._retire(limiter)
            self._limiters[name] = self._make(name, limiter.options, limiter.price)
        return self._limiters[name].status

    async def close(self) -> None:
        """Let go of every connection."""
        for limiter in self._limiters.values():
            self._retire(limiter)
        for backend in self._retired:
            await backend.close()

    def _look(self) -> tuple[int, int] | None:
        """What tells one state of the file from another; None without a file."""
        try:
            found = (self._folder / FILE).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _use(self, configuration: BackendsConfiguration) -> None:
        limiters: dict[str, BackendLimiter] = {}
        for name, options in configuration.backends.items():
            price, earlier = configuration.price_of(name), self._limiters.get(name)
            same = earlier is not None and (earlier.options, earlier.price) == (options, price)
            limiters[name] = earlier if earlier and same else self._make(name, options, price)
        for name, limiter in self._limiters.items():
            if limiters.get(name) is not limiter:
                self._retire(limiter)
        self._limiters = limiters

    def _make(self, name: str, options: BackendOptions, price: PriceOptions | None) -> BackendLimiter:
        """A lane; one whose key or certificates are missing is parked, so that the others can be used."""
        try:
            surroundings = BackendContext(self._folder, read_key(options, self._folder), price, self._wait_for)
            return BackendLimiter(name, options, price, BACKENDS[options.kind].make(options, surroundings))
        except (InvalidInput, OSError) as error:
            limiter = BackendLimiter(name, options, price, None)
            limiter.park(
                error.detail if isinstance(error, InvalidInput) else f"ca_file cannot be read: {error.strerror}"
            )
            return limiter

    def _retire(self, limiter: BackendLimiter) -> None:
        """Keep what may still be under way until the end."""
        if limiter.backend is not None:
            self._retired.append(limiter.backend)


def _limiter(per_minute: float | None) -> AsyncLimiter | None:
    """A limiter that always lets one through: less than one a minute is one in more than a minute."""
    if per_minute is None:
        return None
    return AsyncLimiter(max(1.0, per_minute), MINUTE_S * max(1.0, 1.0 / per_minute))
