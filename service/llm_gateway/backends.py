"""Limits per backend: concurrent calls, calls and tokens per minute, and whether it is disabled."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import structlog
from aiolimiter import AsyncLimiter

from archive.records import SpendingLimits
from service.errors import InvalidInput, NotFound
from service.llm import BACKENDS, Backend, Completion, PermanentFailure, TransientFailure
from service.llm.configuration import FILE, BackendsConfiguration, load_configuration, read_key
from service.llm.options import AgentPass, BackendContext, BackendOptions, HttpOptions, PriceOptions
from service.llm_gateway.schemas import BackendStatus, Price

MINUTE_S = 60.0
MOST_REST_S = 300.0
"""Longest pause of a backend that a call waits for; with a longer one the call fails and may come again."""
FRUITLESS = 5
"""Calls in a row without an answer after which a backend is disabled: a vendor that refuses five prompts of a search
refuses the sixth."""
FIRST_REST_S = 1.0
"""Pause after the first of them; it doubles with each."""

log = structlog.get_logger(__name__)


class BackendLimiter:
    """Limits and state of one backend.

    Attributes:
        name: Name in searches.
        options: Options from the file.
        price: Price; None if unknown.
        backend: The backend; None if it could not be created.
        disabled_reason: Reason why it is disabled; None if it takes calls.
        load: Number of calls that wait or are under way.
    """

    def __init__(self, name: str, options: BackendOptions, price: PriceOptions | None, backend: Backend | None) -> None:
        self.name = name
        self.options = options
        self.price = price
        self.backend = backend
        self.disabled_reason: str | None = None
        self.load = 0
        self._places = asyncio.Semaphore(options.max_concurrency)
        self._calls = _limiter(options.requests_per_minute)
        self._tokens = _limiter(options.tokens_per_minute)
        self._rest_until = 0.0
        self._under_way = 0
        self._fruitless = 0

    @property
    def waits(self) -> bool:
        """True if a person or program has to claim and answer its prompts."""
        return BACKENDS[self.options.kind].waits

    @property
    def retry_after_s(self) -> float:
        """Seconds until the backend takes calls again."""
        return max(0.0, self._rest_until - time.monotonic())

    @property
    def limits(self) -> SpendingLimits:
        """Spending limits of one search at this backend."""
        allowed = self.options.per_search
        return SpendingLimits(allowed.calls, allowed.tokens, allowed.usd)

    @property
    def status(self) -> BackendStatus:
        """Public state of the backend."""
        return BackendStatus(
            name=self.name,
            kind=self.options.kind,
            model=self.options.model if isinstance(self.options, HttpOptions) else "",
            waits=self.waits,
            disabled_reason=self.disabled_reason,
            retry_after_s=round(self.retry_after_s, 1),
            under_way=self._under_way,
            price=None if self.price is None else Price.model_validate(self.price),
        )

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncIterator[Backend]:
        """Wait until the limits allow a call of up to so many tokens, and hold its slot for the block.

        Raises:
            PermanentFailure: If the backend is disabled.
            TransientFailure: If it pauses for longer than a call should wait.
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
        """Return the backend.

        Raises:
            PermanentFailure: If it is disabled.
        """
        if self.disabled_reason is not None or self.backend is None:
            raise PermanentFailure(f"backend '{self.name}' is disabled: {self.disabled_reason}")
        return self.backend

    def disable(self, reason: str) -> None:
        """Disable the backend until the file changes or a person enables it."""
        self.disabled_reason = reason
        log.warning("backend disabled", backend=self.name, reason=reason)

    def rest(self, seconds: float) -> None:
        """Start no call for so many seconds."""
        self._rest_until = max(self._rest_until, time.monotonic() + seconds)

    def answered(self) -> None:
        """Count an answer: whatever failed before it has passed."""
        self._fruitless = 0

    def failed(self, reason: str) -> None:
        """Count a call without an answer. The backend pauses, each time longer; after a few in a row it is disabled."""
        self._fruitless += 1
        if self._fruitless >= FRUITLESS and self.disabled_reason is None:
            self.disable(f"no answer to {self._fruitless} prompts in a row; the last: {reason}")
        self.rest(FIRST_REST_S * 2 ** (self._fruitless - 1))

    async def _ready(self, tokens: int) -> None:
        while (rest_s := self.retry_after_s) > 0:
            if rest_s > MOST_REST_S:
                raise TransientFailure(f"backend '{self.name}' takes no calls for {rest_s:.0f} s", retry_after_s=rest_s)
            await asyncio.sleep(rest_s)
        if self._calls is not None:
            await self._calls.acquire()
        if self._tokens is not None:
            await self._tokens.acquire(min(tokens, self._tokens.max_rate))


class BackendPool:
    """All backends of `backends.toml`; a changed file recreates them."""

    def __init__(
        self,
        folder: Path,
        wait_for: Callable[[str], Awaitable[Completion]],
        admit: Callable[[str, int, float], AbstractAsyncContextManager[AgentPass]] | None = None,
    ) -> None:
        """Read the file in the data folder. `wait_for` and `admit` are as in `BackendContext`.

        Raises:
            InvalidInput: If something in it is invalid; names the field.
        """
        self._folder = folder
        self._wait_for, self._admit = wait_for, admit
        self._limiters: dict[str, BackendLimiter] = {}
        self._retired: list[Backend] = []
        self._stamp = self._look()
        self._use(load_configuration(folder))

    @property
    def file(self) -> Path:
        """Path of `backends.toml`, whether or not it exists."""
        return self._folder / FILE

    def refresh(self) -> None:
        """Read the file again if it changed. A backend with equal options keeps its state."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._use(load_configuration(self._folder))
        except InvalidInput as error:
            log.error("backends.toml is invalid; the previous backends stay", field=error.field, detail=error.detail)

    def get(self, name: str) -> BackendLimiter | None:
        """Return the backend's limiter; None if the file does not name the backend."""
        self.refresh()
        return self._limiters.get(name)

    def choose(self, names: Sequence[str]) -> BackendLimiter:
        """Return the least busy of some backends that take calls.

        Raises:
            PermanentFailure: If none takes calls; says why.
        """
        self.refresh()
        known = [self._limiters[name] for name in names if name in self._limiters]
        usable = [limiter for limiter in known if limiter.disabled_reason is None]
        if not usable:
            reasons = (
                "; ".join(f"{limiter.name}: {limiter.disabled_reason}" for limiter in known)
                or "none of its backends is configured"
            )
            raise PermanentFailure(f"no backend takes calls: {reasons}")
        return min(
            usable, key=lambda limiter: (limiter.retry_after_s > 0, limiter.load / limiter.options.max_concurrency)
        )

    def statuses(self) -> list[BackendStatus]:
        """Return the public state of all backends, sorted by name."""
        self.refresh()
        return [limiter.status for _, limiter in sorted(self._limiters.items())]

    def enable(self, name: str) -> BackendStatus:
        """Enable a disabled backend, and read its key again.

        Raises:
            NotFound: If there is no such backend.
        """
        limiter = self.get(name)
        if limiter is None:
            raise NotFound(f"there is no backend '{name}'")
        if limiter.disabled_reason is not None:
            self._retire(limiter)
            self._limiters[name] = self._make(name, limiter.options, limiter.price)
        return self._limiters[name].status

    async def close(self) -> None:
        """Close every connection."""
        for limiter in self._limiters.values():
            self._retire(limiter)
        for backend in self._retired:
            await backend.close()

    def _look(self) -> tuple[int, int] | None:
        """Return the file's modification time and size; None without a file."""
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
        """Create a backend. If its key or certificates are missing it is disabled, so that the others stay usable."""
        try:
            key = read_key(options, self._folder)
            surroundings = BackendContext(self._folder, key, price, self._wait_for, self._admit)
            return BackendLimiter(name, options, price, BACKENDS[options.kind].make(options, surroundings))
        except (InvalidInput, OSError) as error:
            limiter = BackendLimiter(name, options, price, None)
            limiter.disable(
                error.detail if isinstance(error, InvalidInput) else f"ca_file cannot be read: {error.strerror}"
            )
            return limiter

    def _retire(self, limiter: BackendLimiter) -> None:
        """Keep a replaced backend, whose calls may still be under way, until `close`."""
        if limiter.backend is not None:
            self._retired.append(limiter.backend)


def _limiter(per_minute: float | None) -> AsyncLimiter | None:
    """Return a limiter that always admits one call: half a call per minute becomes one per two minutes."""
    if per_minute is None:
        return None
    return AsyncLimiter(max(1.0, per_minute), MINUTE_S * max(1.0, 1.0 / per_minute))
