"""Comparisons: what one of them fails by is the reason of its row, and no other row's."""

import asyncio
from collections.abc import Sequence

from benchmarks.comparing import Comparisons
from benchmarks.figures import Row
from benchmarks.suites import ANCHOR, Entry
from tests.service.records import search
from tests.workers.runner.plans import bundle_of, kernel
from workers.protocol import Bundle, Graph

BUNDLE = bundle_of(kernel())


async def test_a_comparison_that_fails_is_noted_and_the_next_one_made():
    rows: list[tuple[str, Row]] = []

    def compare(entry: Entry, graphs: Sequence[Graph], bundle: Bundle) -> Row:
        if entry is ANCHOR[0]:
            raise ValueError("it cannot be assembled")
        return {"reef_us": 1.0}

    comparisons = Comparisons([compare], lambda entry, row: rows.append((entry.key, row)))
    for entry in ANCHOR[:2]:
        comparisons.begin(entry, search(), {"evaluations": 3}, BUNDLE)
    await comparisons.finish()
    (first, failed), (second, compared) = rows
    assert (first, second) == (ANCHOR[0].key, ANCHOR[1].key)
    assert failed["reason"] == "ValueError: it cannot be assembled"
    assert compared["reef_us"] == 1.0 and compared["evaluations"] == 3


async def test_who_waits_for_comparisons_waits_for_one_at_a_time():
    go = [asyncio.Event() for _ in range(2)]
    loop = asyncio.get_running_loop()

    def compare(entry: Entry, graphs: Sequence[Graph], bundle: Bundle) -> Row:
        asyncio.run_coroutine_threadsafe(go[entry is ANCHOR[0]].wait(), loop).result()
        return {}

    comparisons = Comparisons([compare, compare], lambda entry, row: None)
    assert not await comparisons.lessen()
    for entry in ANCHOR[:2]:
        comparisons.begin(entry, search(), {}, BUNDLE)
    waiting = comparisons.ahead_s
    go[0].set()
    assert await comparisons.lessen()
    assert comparisons.ahead_s < waiting
    go[1].set()
    assert await comparisons.lessen()
    assert not await comparisons.lessen()
    await comparisons.finish()
