"""The client that blocks does what the other does, for programs with a loop of their own and without."""

import asyncio
import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelreef import AsyncReef, Reef
from kernelreef.problems import ServiceUnreachable
from service.errors import NotFound
from tests.service.serving import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a service in another process."""
    with Served(tmp_path_factory.mktemp("reef")) as service:
        yield service.url


@pytest.fixture
def reef(served: str) -> Iterator[Reef]:
    with Reef(served) as reef:
        yield reef


def test_it_speaks_to_a_service_in_another_process(reef: Reef, tmp_path: Path) -> None:
    search = reef.submit("rmsnorm", evaluations=9)
    assert reef.search(search.id) == reef.search(search.id)
    assert [each.id for each in reef.searches(state=["preparing"])] == [search.id]
    changed = reef.update(search.id, evaluations=8, priority=7)
    assert (changed.evaluations, changed.priority) == (8, 7)
    assert reef.pin(search.id, cell=1).cell == 1
    assert [pin.cell for pin in reef.pins(search.id)] == [1]
    assert reef.best(search.id) is None
    events = reef.events(search.id)
    assert next(events).kind == "stream.reset"
    reef.stop(search.id)
    assert [event.data["state"] for event in events][-1] == "stopped"
    assert reef.wait(search.id).state == "stopped"
    assert reef.export(search.id, tmp_path / "found.zip").stat().st_size > 100
    with pytest.raises(NotFound):
        reef.search("0190a000-0000-7000-8000-000000000000")


def test_a_program_with_a_loop_may_use_it(served: str) -> None:
    async def inside() -> int:
        with Reef(served) as reef:
            return len(list(reef.operators(catalogue=True)))

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(inside())).result() > 5


def test_nobody_there_is_said() -> None:
    with Reef("http://127.0.0.1:9", attempts=1) as reef, pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1"):
        reef.search("0190a000-0000-7000-8000-000000000000")


def test_it_has_every_method_that_the_other_has() -> None:
    def shape(kind: type) -> dict[str, list[str]]:
        methods = {name: value for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}
        return {name: list(inspect.signature(value).parameters) for name, value in methods.items()}

    assert shape(Reef) == shape(AsyncReef)
