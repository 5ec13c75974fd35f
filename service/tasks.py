"""Background tasks: ended so that they have really ended."""

import asyncio
from collections.abc import Iterable
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
