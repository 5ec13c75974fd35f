"""Helpers for background tasks: cancel them reliably, and finish work despite cancellation."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

PATIENCE_S = 1.0
"""Seconds until a cancelled task that still runs is cancelled again. Libraries may swallow a cancellation that
coincides with a timeout of theirs."""


async def end(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks until all of them have ended; drop their exceptions."""
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        done, running = await asyncio.wait(running, timeout=PATIENCE_S)
        for task in done:
            if not task.cancelled():
                task.exception()


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Await work to its end even if cancelled meanwhile; a half-closed resource would leak."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    finally:
        await asyncio.wait([task])
