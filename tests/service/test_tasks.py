"""A background task that swallows a cancellation is cancelled again, and what must be finished is."""

import asyncio
import contextlib

from service.tasks import end, finish


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


async def test_what_is_to_be_finished_is_before_a_cancellation_goes_on() -> None:
    told = []

    async def close() -> None:
        await asyncio.sleep(0.01)
        told.append("closed")

    async def work() -> None:
        try:
            await finish(close())
        finally:
            told.append("left")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and told == ["closed", "left"]
