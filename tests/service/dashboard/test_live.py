import asyncio
from dataclasses import dataclass

from service.dashboard import live
from service.dashboard.rendering import Fragment, Frame
from service.events import ElitePromoted, Events


@dataclass(frozen=True)
class Kernels(Fragment):
    template = "parts/assembly.html"
    name = "kernels"

    kernels: tuple[tuple[str, str, str], ...]


def promoted(number: int, search: str = "s") -> ElitePromoted:
    return ElitePromoted(search, "model:sm_90", number, "c", 1.0, "new")


async def test_only_what_has_changed_is_sent_and_a_storm_costs_few_redraws() -> None:
    events, state = Events(), {"text": "a", "loads": 0}

    async def load() -> tuple[Fragment, ...]:
        state["loads"] = int(state["loads"]) + 1
        return (Kernels(((f"{0:064}", "ptx", str(state["text"])),)),)

    updates = live.stream(events, load, Frame(), "s")
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
    events = Events()

    async def load() -> tuple[Fragment, ...]:
        return ()

    async def follow() -> list[str | None]:
        return [update.event async for update in live.stream(events, load, Frame())]

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    events.close()
    assert await asyncio.wait_for(following, 5) == ["beat"]
