"""Whom a search's jobs wait for, with workers of each kind there and gone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchState
from service.fleet.capabilities import Capabilities
from service.fleet.missing_workers import describe_missing, find_missing
from tests.service import records
from tests.service.guests import JOINED, Guest
from tests.service.workbench import Workbench
from workers.queue import LeaseClient


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    while JOINED:
        await JOINED.pop().leave()
    await bench.close()


def served(bench: Workbench) -> Capabilities:
    """One that has seen nothing yet."""
    return Capabilities(bench.store, bench.dispatcher)


async def test_who_is_missing_is_named_and_nobody_is_once_all_are_there(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2)
    await bench.evolution.tick()
    alone = await find_missing(served(bench), bench.dispatcher, search)
    assert alone == {"a worker that traces for sm_90"}
    judge = LeaseClient(bench.redis_url, "judge", device=records.DEVICE)
    judge.announce()
    assert await find_missing(served(bench), bench.dispatcher, search) == alone
    tracer = LeaseClient(bench.redis_url, "tracer", target="sm_90")
    tracer.announce()
    assert await find_missing(served(bench), bench.dispatcher, search) == set()
    tracer.depart()
    other = records.search(id="without-jobs")
    assert await find_missing(served(bench), bench.dispatcher, other) == set()


@pytest.mark.parametrize("trusted", [False, True])
async def test_what_decides_describe_missing_a_trusted_worker(bench: Workbench, trusted: bool) -> None:
    search = await bench.begin(evaluations=2)
    await bench.evolution.tick()
    guest = await Guest.join(bench, records.DEVICE)
    await guest.remote_workers.trust(guest.id, trusted)
    guest.lessee.announce()
    await guest.remote_workers.serve()
    found = await find_missing(served(bench), bench.dispatcher, search)
    assert found == (set() if trusted else {"a trusted worker that traces for sm_90"})


async def test_a_device_that_nobody_judges_on_is_said_before_any_job_is_sent_there(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2)
    await bench.evolution.tick()
    judge, tracer = f"a worker that judges on {records.DEVICE}", "a worker that traces for sm_90"
    assert await describe_missing(served(bench), bench.dispatcher, search) == [judge, tracer]
    stopped = await bench.store.searches.set_state(search.id, SearchState.STOPPED)
    assert await describe_missing(served(bench), bench.dispatcher, stopped) == []


async def test_a_compiler_that_no_worker_has_is_said_in_one_sentence(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2, compiler="3.9")
    await bench.evolution.tick()
    wanted = "a worker that traces for sm_90 with Triton 3.9"
    worker = LeaseClient(bench.redis_url, "worker", target="sm_90", device=records.DEVICE)
    worker.announce(versions={"triton": "3.7.1"})
    assert await find_missing(served(bench), bench.dispatcher, search) == {wanted}
    assert await describe_missing(served(bench), bench.dispatcher, search) == [wanted]
    worker.announce(versions={"triton": "3.9.1"})
    assert await find_missing(served(bench), bench.dispatcher, search) == set()
