"""Looks are shared by those who wait, and never older than the asking."""

import asyncio
from collections.abc import Collection

import pytest

from service.single_flight import SingleFlight


class Shelf:
    """Things under their keys, looked up slowly; notes what each look was for."""

    def __init__(self, **things: int) -> None:
        self.things = dict(things)
        self.asked: list[set[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.fails = False

    async def look(self, keys: Collection[str]) -> dict[str, int]:
        self.asked.append(set(keys))
        found = {key: self.things[key] for key in keys if key in self.things}
        await self.open.wait()
        if self.fails:
            raise ConnectionError("away")
        return found


async def test_all_who_ask_at_once_share_a_look() -> None:
    shelf = Shelf(a=1, b=2)
    looks = SingleFlight(shelf.look)
    assert await asyncio.gather(*(looks.find(key) for key in "aabc")) == [1, 1, 2, None]
    assert shelf.asked == [{"a", "b", "c"}]


async def test_who_asks_during_a_look_is_told_what_is_true_after_it() -> None:
    shelf = Shelf(a=1)
    looks = SingleFlight(shelf.look)
    shelf.open.clear()
    early = asyncio.create_task(looks.find("a"))
    await asyncio.sleep(0.01)
    shelf.things["a"] = 2
    late = [asyncio.create_task(looks.find("a")) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert len(shelf.asked) == 1, "one look at a time"
    shelf.open.set()
    assert await early == 1
    assert await asyncio.gather(*late) == [2, 2, 2]
    assert len(shelf.asked) == 2


async def test_who_goes_away_takes_nothing_from_the_others() -> None:
    shelf = Shelf(a=1)
    looks = SingleFlight(shelf.look)
    shelf.open.clear()
    leaver, stayer = (asyncio.create_task(looks.find("a")) for _ in range(2))
    await asyncio.sleep(0.01)
    leaver.cancel()
    shelf.open.set()
    assert await stayer == 1


async def test_a_look_that_fails_fails_for_those_who_waited_and_nobody_else() -> None:
    shelf = Shelf(a=1)
    looks = SingleFlight(shelf.look)
    shelf.fails = True
    first, second = await asyncio.gather(looks.find("a"), looks.find("b"), return_exceptions=True)
    assert isinstance(first, ConnectionError) and isinstance(second, ConnectionError)
    shelf.fails = False
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await looks.find("a")
    assert await looks.find("a") == 1
