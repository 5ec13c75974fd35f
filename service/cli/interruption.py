"""Interruption of a command by SIGINT (Ctrl-C) or SIGTERM: the first one cancels it, the second one ends it at once."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any

from service.cli.console import err

INTERRUPTED = 130
"""Exit code of an interrupted command, as shells have it for SIGINT."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_interruptibly(work: Coroutine[Any, Any, int]) -> int:
    """Run a command and return its exit code; `INTERRUPTED` if a signal cancelled it."""
    return asyncio.run(_guarded(work))


async def _guarded(work: Coroutine[Any, Any, int]) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            err.show_cursor()
            os._exit(INTERRUPTED)
        interrupted = True
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    except asyncio.CancelledError:
        if not interrupted:
            raise
        return INTERRUPTED
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
