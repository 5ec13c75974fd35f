"""A background task that swallows a cancellation is cancelled again, until it has ended."""

import asyncio
import contextlib

from service.tasks import end


async def test_a_task_that_swallows_a_cancellation_still_ends() -> None:
    swallowed = []

    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        swallowed.append(True)
        await asyncio.sleep(60)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(end([task]), 10)
    assert task.done() and swallowed == [True]


async def test_what_a_task_raises_stays_in_it() -> None:
    async def broken() -> None:
        raise ValueError("lost")

    task = asyncio.create_task(broken())
    await asyncio.sleep(0)
    await end([task])
    assert task.done()
