"""What one coordinator says, watchers of every other hear, in one order and under ids that hold everywhere."""

import asyncio
from collections.abc import AsyncIterator

import redis

from service.events import CandidateJudged, EventBus, PublishedEvent, SearchChanged, StreamReset
from service.scheduler.event_bus import RedisBus

RUNNING = SearchChanged(search="a", state="running")
DONE = SearchChanged(search="a", state="done")
JUDGED = CandidateJudged(search="a", candidate="c", ordinal=0, emitter="tune", outcome="correct", objective=1.5)


class Coordinator:
    """As much of one as has events."""

    def __init__(self, redis_url: str) -> None:
        self.events = EventBus()
        self.relay = RedisBus(redis_url, self.events)

    async def __aenter__(self) -> "Coordinator":
        await self.relay.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.relay.close()

    async def read(self, count: int, after: str | None = None) -> list[PublishedEvent]:
        """So many announcements of a new watch."""
        watch: AsyncIterator[PublishedEvent] = self.events.subscribe("a", after=after)
        async with asyncio.timeout(10):
            return [await anext(watch) for _ in range(count)]

    async def watching(self, count: int) -> "asyncio.Task[list[PublishedEvent]]":
        """A watch that has begun."""
        task = asyncio.create_task(self.read(count))
        while not self.events.watchers:
            await asyncio.sleep(0)
        return task


async def test_events_are_heard_everywhere_under_the_same_ids(redis_url: str) -> None:
    async with Coordinator(redis_url) as first, Coordinator(redis_url) as second:
        watches = [await each.watching(4) for each in (first, second)]
        for event in (RUNNING, JUDGED, DONE):
            first.events.publish(event)
        mine, others = await asyncio.gather(*watches)
        assert [announcement.event for announcement in mine] == [StreamReset(), RUNNING, JUDGED, DONE]
        assert mine[1:] == others[1:]


async def test_a_watch_is_resumed_at_another_coordinator_and_after_a_restart(redis_url: str) -> None:
    async with Coordinator(redis_url) as first:
        watch = await first.watching(2)
        first.events.publish(RUNNING)
        seen = await watch
        first.events.publish(JUDGED)
    async with Coordinator(redis_url) as second:
        second.events.publish(DONE)
        resumed = await second.read(2, after=seen[-1].id)
        assert [announcement.event for announcement in resumed] == [JUDGED, DONE]


async def test_who_saw_what_is_no_longer_kept_reads_again(redis_url: str) -> None:
    async with Coordinator(redis_url) as coordinator:
        assert (await coordinator.read(1, after="1-1"))[0].event == StreamReset()


async def test_an_event_of_another_version_is_passed_over(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.xadd("reef:events", {"at": "2026-01-02T00:00:00+00:00", "kind": "moon.risen", "event": "{}"})
    async with Coordinator(redis_url) as coordinator:
        watch = await coordinator.watching(2)
        coordinator.events.publish(DONE)
        assert (await watch)[-1].event == DONE


async def test_events_wait_while_redis_is_away_and_watchers_then_read_again(redis_url: str) -> None:
    async with Coordinator(redis_url) as coordinator:
        watch = await coordinator.watching(3)
        with redis.Redis.from_url(redis_url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        coordinator.events.publish(DONE)
        heard = [announcement.event for announcement in await watch]
        assert heard[0] == StreamReset() and DONE in heard
