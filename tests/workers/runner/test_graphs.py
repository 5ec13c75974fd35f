from collections.abc import Iterator

import pytest

from tests.workers.paper_driver import Paper, code, on_paper
from workers import driver
from workers.runner.graphs import RoundGraphs


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper() as found:
        yield found


def calls(count: int) -> list:
    """As many launches of a kernel, each with its number."""
    function = driver.load_function(code(1, "work"), "kernel", 0)
    launch = driver.make_launcher(function, (1, 1, 1), 32, 0)
    kept = [driver.LaunchParameters([number]) for number in range(count)]
    return [lambda stream, each=each: launch(stream, each.address) for each in kept]


def test_calls_run_in_order_as_one(paper: Paper) -> None:
    run = RoundGraphs(5).capture(calls(3))
    assert not paper.launched
    run(5)
    assert [launched.parameters for launched in paper.launched] == [(0,), (1,), (2,)]
    assert paper.log == ["graph"]


def test_every_graph_is_one_of_its_own(paper: Paper) -> None:
    graphs = RoundGraphs(5)
    for count in (2, 3):
        graphs.capture(calls(count))(5)
    assert paper.log == ["graph", "graph"] and len(paper.launched) == 5


def test_nothing_is_kept_after_clearing(paper: Paper) -> None:
    graphs = RoundGraphs(5)
    for _ in range(2):
        graphs.capture(calls(1))
    graphs.clear()
    graphs.clear()
    assert paper.destroyed == 2
