"""Watchers get every event in order, or are told to read the state again; they never hold up whoever publishes."""

import asyncio
from datetime import UTC

import pytest

from service.events import (
    CandidateJudged,
    ElitePromoted,
    Event,
    EventBus,
    PublishedEvent,
    SearchChanged,
    StreamReset,
)

RUNNING = SearchChanged(search="a", state="running")
DONE = SearchChanged(search="a", state="done")
OTHER = SearchChanged(search="b", state="running")


async def read_all(events: EventBus, search: str | None = None, after: str | None = None) -> list[PublishedEvent]:
    """Everything that a watch yields until the bus is closed."""
    return [announcement async for announcement in events.subscribe(search, after=after)]


async def watching(
    events: EventBus, search: str | None = None, after: str | None = None
) -> "asyncio.Task[list[PublishedEvent]]":
    """A watch that has begun."""
    before = events.watchers
    task = asyncio.create_task(read_all(events, search, after))
    while events.watchers == before:
        await asyncio.sleep(0)
    return task


def said(announcements: list[PublishedEvent]) -> list[Event]:
    return [announcement.event for announcement in announcements]


async def test_a_watch_begins_with_a_reread_and_follows_in_order() -> None:
    events = EventBus()
    events.publish(RUNNING)
    task = await watching(events)
    events.publish(OTHER)
    events.publish(DONE)
    events.close()
    assert said(await task) == [StreamReset(), OTHER, DONE]


async def test_a_watch_of_one_search_hears_of_that_one_only() -> None:
    events = EventBus()
    task = await watching(events, "a")
    judged = CandidateJudged(search="a", candidate="c", ordinal=0, emitter="tune", outcome="correct", objective=1.5)
    promoted = ElitePromoted(search="b", device="model:sm_90", cell=3, candidate="d", objective=2.0, placement="new")
    for event in (OTHER, judged, promoted, DONE):
        events.publish(event)
    events.close()
    assert said(await task) == [StreamReset(), judged, DONE]


async def test_every_watcher_gets_every_event() -> None:
    events = EventBus()
    tasks = [await watching(events) for _ in range(3)]
    events.publish(RUNNING)
    events.close()
    assert [said(await task) for task in tasks] == [[StreamReset(), RUNNING]] * 3


async def test_a_watch_resumes_after_the_last_event_seen() -> None:
    events = EventBus()
    first = await watching(events)
    for event in (RUNNING, OTHER, DONE):
        events.publish(event)
    second = await watching(events)
    events.close()
    seen = await first
    assert said(await read_all(events, after=seen[1].id)) == [OTHER, DONE]
    assert said(await read_all(events, after=seen[3].id)) == []
    # The id that an opening reread carries resumes too.
    assert said(await read_all(events, after=(await second)[0].id)) == []


@pytest.mark.parametrize("after", ["", "nonsense", "0-0", "00000000-1", "9" * 5000, "\x00-\u0661"])
async def test_an_unknown_id_asks_for_a_reread(after: str) -> None:
    events = EventBus()
    events.publish(RUNNING)
    events.close()
    assert said(await read_all(events, after=after)) == [StreamReset()]


async def test_an_id_older_than_the_history_asks_for_a_reread() -> None:
    events = EventBus(history=2)
    task = await watching(events)
    for event in (RUNNING, OTHER, DONE, DONE):
        events.publish(event)
    events.close()
    seen = await task
    assert said(await read_all(events, after=seen[1].id)) == [StreamReset()]
    assert said(await read_all(events, after=seen[3].id)) == [DONE]


async def test_ids_of_another_process_are_unknown() -> None:
    one, other = EventBus(), EventBus()
    for events in (one, other):
        events.publish(RUNNING)
        events.close()
    foreign = (await read_all(one))[0].id
    assert said(await read_all(other, after=foreign)) == [StreamReset()]


async def test_a_slow_watcher_loses_events_and_is_told_so() -> None:
    events = EventBus(backlog=3)
    task = await watching(events)
    for number in range(5):
        events.publish(SearchChanged(search="a", state="running", reason=str(number)))
    events.close()
    seen = await task
    # The opening reread was read; 0 to 2 filled the backlog, 3 did not fit and became a reread, 4 followed.
    assert [getattr(event, "reason", event.kind) for event in said(seen)] == ["stream.reset", "stream.reset", "4"]


async def test_publishing_to_a_stuck_watcher_stays_bounded() -> None:
    events = EventBus(history=4, backlog=4)
    stuck = events.subscribe()
    assert (await anext(stuck)).event == StreamReset()
    for _ in range(10_000):
        events.publish(RUNNING)
    events.close()
    assert len([announcement async for announcement in stuck]) <= 4


async def test_a_watch_that_is_left_is_forgotten() -> None:
    events = EventBus()
    watch = events.subscribe()
    await anext(watch)
    assert events.watchers == 1
    await watch.aclose()
    assert events.watchers == 0


async def test_a_watch_of_a_closed_bus_ends() -> None:
    events = EventBus()
    events.close()
    events.close()
    assert said(await read_all(events)) == [StreamReset()]


async def test_announcements_carry_rising_ids_and_utc_times() -> None:
    events = EventBus()
    task = await watching(events)
    events.publish(RUNNING)
    events.publish(DONE)
    events.close()
    seen = await task
    numbers = [int(announcement.id.rpartition("-")[2]) for announcement in seen]
    assert numbers == [0, 1, 2]
    assert all(announcement.at.tzinfo is UTC for announcement in seen)
    assert events.published == 2
