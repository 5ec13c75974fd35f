"""Event bus between coordinators: a Redis stream that all of them read, in the same order and with the same ids.

So a watcher may resume at any coordinator and after a restart, as far back as the stream reaches. Events repeat what is
in the archive already; if some are lost, watchers are told to read the state again.
"""

import asyncio
import contextlib
from collections import deque
from datetime import UTC, datetime
from typing import Any, get_args

import structlog
from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from service.events import HISTORY, Event, EventBus, PublishedEvent, StreamReset
from service.tasks import end

STREAM = "reef:events"
"""Key of the stream; fields `at`, `kind` and `event` (JSON)."""
UNSENT = 4096
"""Maximum number of events kept while Redis is away; older ones are dropped, as watchers read the state again then."""
BLOCK_MS = 2_000
"""Longest wait in one read, milliseconds."""
ANSWER_S = 10.0
"""Seconds without an answer after which a connection counts as dead; well above `BLOCK_MS`."""
PAUSE_S = 0.3
"""Seconds before Redis is tried again."""
FLUSH_S = 1.0
"""Seconds for sending the last events at the end."""

_KINDS: dict[str, TypeAdapter[Any]] = {kind.kind: TypeAdapter(kind) for kind in get_args(Event)}

log = structlog.get_logger(__name__)


class RedisBus:
    """Connects the bus of one coordinator to those of the others."""

    def __init__(self, redis_url: str, events: EventBus) -> None:
        self._redis = Redis.from_url(
            redis_url, decode_responses=True, socket_timeout=ANSWER_S, retry=Retry(NoBackoff(), 0)
        )
        self._events = events
        self._unsent: deque[dict[Any, Any]] = deque(maxlen=UNSENT)
        self._pending = asyncio.Event()
        self._last = "0-0"
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read recent events, then send and receive until `close`."""
        with contextlib.suppress(RedisError, OSError):
            recent: Any = await self._redis.xrevrange(STREAM, count=HISTORY)
            for id, fields in reversed(recent):
                self._receive(id, fields)
        self._events.route(self._enqueue)
        self._tasks = [
            asyncio.create_task(self._keep_sending(), name="events sent"),
            asyncio.create_task(self._keep_receiving(), name="events received"),
        ]

    async def close(self) -> None:
        """Send the last events, if Redis takes them, and stop."""
        self._events.route(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                while self._unsent:
                    await asyncio.sleep(0.01)
        await end(self._tasks)
        await self._redis.aclose()

    def _enqueue(self, event: Event) -> None:
        document = _KINDS[event.kind].dump_json(event).decode()
        self._unsent.append({"at": datetime.now(UTC).isoformat(), "kind": event.kind, "event": document})
        self._pending.set()

    async def _keep_sending(self) -> None:
        while True:
            await self._pending.wait()
            self._pending.clear()
            while self._unsent:
                batch = list(self._unsent)
                try:
                    await self._add(batch)
                except (RedisError, OSError) as error:
                    log.warning("events wait for the queue", events=len(batch), reason=str(error))
                    await asyncio.sleep(PAUSE_S)
                    continue
                for _ in range(min(len(batch), len(self._unsent))):
                    self._unsent.popleft()

    async def _add(self, batch: list[dict[Any, Any]]) -> None:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for fields in batch:
                pipeline.xadd(STREAM, fields, maxlen=HISTORY, approximate=True)
            await pipeline.execute()

    async def _keep_receiving(self) -> None:
        """Receive events as they come; after an interruption, tell watchers to read the state again."""
        while True:
            try:
                read: Any = await self._redis.xread({STREAM: self._last}, block=BLOCK_MS)
            except (RedisError, OSError):
                await asyncio.sleep(PAUSE_S)
                self._events.deliver(PublishedEvent(self._last, datetime.now(UTC), StreamReset()))
                continue
            for _, entries in read:
                for id, fields in entries:
                    self._receive(id, fields)

    def _receive(self, id: str, fields: dict[str, str]) -> None:
        self._last = id
        try:
            event: Event = _KINDS[fields["kind"]].validate_json(fields["event"])
            at = datetime.fromisoformat(fields["at"])
        except (KeyError, ValueError, ValidationError) as error:
            log.info("event of an unknown version", id=id, reason=str(error)[:200])
            return
        self._events.deliver(PublishedEvent(id, at, event))
