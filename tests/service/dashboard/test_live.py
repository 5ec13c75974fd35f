import asyncio
import time
from dataclasses import dataclass

import pytest

from archive.errors import RecordNotFound
from service.dashboard import live
from service.dashboard.maps import ArchiveMap, MapRow, MapView, Tile
from service.dashboard.rendering import Fragment, PageFrame
from service.events import ElitePromoted, EventBus


@dataclass(frozen=True)
class Kernels(Fragment):
    template = "parts/assembly.html"
    name = "kernels"

    kernels: tuple[tuple[str, str, str], ...]


def promoted(number: int, search: str = "s") -> ElitePromoted:
    return ElitePromoted(search, "model:sm_90", number, "c", 1.0, "new")


async def test_only_what_has_changed_is_sent_and_a_storm_costs_few_redraws() -> None:
    events, state = EventBus(), {"text": "a", "loads": 0}

    async def load() -> tuple[Fragment, ...]:
        state["loads"] = int(state["loads"]) + 1
        return (Kernels(((f"{0:064}", "ptx", str(state["text"])),)),)

    updates = live.stream(events, "page", load, PageFrame(), "s")
    first = [await anext(updates), await anext(updates)]
    assert [update.event for update in first] == ["part", "beat"]
    for number in range(3000):
        events.publish(promoted(number))
    state["text"] = "<b>"
    second = [await anext(updates), await anext(updates)]
    assert [update.event for update in second] == ["part", "beat"]
    assert second[0].data["name"] == "kernels" and "&lt;b&gt;" in second[0].data["inside"]
    assert state["loads"] == 2
    events.publish(promoted(0))
    assert (await anext(updates)).event == "beat", "nothing changed, so nothing but the beat is sent"
    await updates.aclose()
    assert events.watchers == 0


async def test_it_ends_with_the_service() -> None:
    events = EventBus()

    async def load() -> tuple[Fragment, ...]:
        return ()

    async def follow() -> list[str | None]:
        return [update.event async for update in live.stream(events, "page", load, PageFrame())]

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    events.close()
    assert await asyncio.wait_for(following, 5) == ["beat"]


@dataclass(frozen=True)
class Lines(Fragment):
    template = "parts/grid.html"
    name = "lines"

    map: ArchiveMap
    view: MapView
    provenance: str = "predicted"

    @property
    def pieces(self) -> tuple[Fragment, ...]:
        return self.map.tiles


def lines(*pinned: bool) -> Lines:
    tiles = tuple(Tile(f"at-{at}-0", "", "empty", None, 0, 1, "predicted", False, pin) for at, pin in enumerate(pinned))
    return Lines(
        ArchiveMap((MapRow("", tiles),), ("a", "b"), (), (), 1, 0, False),
        MapView("model:sm_90", "num_warps", "num_warps"),
    )


async def test_it_ends_when_its_search_is_deleted() -> None:
    events, state = EventBus(), {"deleted": False}

    async def load() -> tuple[Fragment, ...]:
        if state["deleted"]:
            raise RecordNotFound("there is no search s")
        return ()

    updates = live.stream(events, "page", load, PageFrame(), "s")
    assert (await anext(updates)).event == "beat"
    state["deleted"] = True
    events.publish(promoted(0))
    assert await anext(updates, None) is None
    assert events.watchers == 0


async def test_only_pieces_that_have_changed_are_sent() -> None:
    events, shown = EventBus(), [lines(False, False), lines(False, True)]

    async def load() -> tuple[Fragment, ...]:
        return (shown[0],)

    updates = live.stream(events, "page", load, PageFrame())
    whole = (await anext(updates)).data
    assert whole["name"] == "lines" and whole["inside"].count("<td id=") == 2
    assert (await anext(updates)).event == "beat"
    shown.pop(0)
    events.publish(promoted(0))
    update = await anext(updates)
    assert update.event == "pieces" and list(update.data["pieces"]) == ["at-1-0"]
    assert 'class="empty pinned"' in update.data["pieces"]["at-1-0"]
    await updates.aclose()


async def test_all_who_watch_a_page_share_one_reading() -> None:
    rounds, loads = live.PageReadings(), []

    async def load() -> tuple[Fragment, ...]:
        loads.append(1)
        await asyncio.sleep(0.01)
        return (lines(False),)

    began = time.monotonic()
    frames = [PageFrame(), PageFrame(), PageFrame(csrf="mine")]
    found = await asyncio.gather(*(rounds.parts("page", began, load, frame) for frame in frames))
    assert len(loads) == 1 and found[0][1] is found[1][1] and found[0][0] >= began
    await rounds.parts("page", began, load, PageFrame())
    assert len(loads) == 1, "it is new enough"
    await rounds.parts("page", time.monotonic(), load, PageFrame())
    await rounds.parts("other", began, load, PageFrame())
    assert len(loads) == 3, "something has happened since, and another page is another reading"


async def test_many_watchers_of_one_page_read_no_more_often_than_one_in_a_storm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "REDRAW_S", 0.1)
    events, loads, last, seen = EventBus(), [], 0, [""] * 8

    async def load() -> tuple[Fragment, ...]:
        loads.append(time.monotonic())
        await asyncio.sleep(0.01)
        return (Kernels(((f"{0:064}", "ptx", f"state {last}"),)),)

    async def follow(watcher: int) -> None:
        """Watch from a time of its own on."""
        await asyncio.sleep(watcher * 0.017)
        async for update in live.stream(events, "page", load, PageFrame(), "s"):
            seen[watcher] = update.data["inside"] if update.event == "part" else seen[watcher]

    async def all_see(state: str) -> None:
        while not all(state in inside for inside in seen):
            await asyncio.sleep(0.01)

    watching = [asyncio.create_task(follow(watcher)) for watcher in range(len(seen))]
    for number in range(200):
        last = number
        events.publish(promoted(number))
        await asyncio.sleep(0.005)
    await asyncio.wait_for(all_see("state 199"), 60)
    events.close()
    await asyncio.gather(*watching)
    assert len(loads) <= 2 + 1.5 * (loads[-1] - loads[0]) / 0.1, "eight watchers read about as often as one"
