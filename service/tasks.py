"""Background tasks: ended so that they have really ended; and what must not be left half done."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

PATIENCE_S = 1.0
"""Seconds until a cancelled task that goes on is cancelled again: libraries may swallow a cancellation that meets a
timeout of theirs."""


async def end(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks until all of them have ended; what they raise is dropped."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        done, running = await asyncio.wait(running, timeout=PATIENCE_S)
        for task in done:
            if not task.cancelled():
                task.exception()


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Await something to its end, be we cancelled meanwhile or not: what is half closed stays open."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    finally:
        await asyncio.wait([task])
