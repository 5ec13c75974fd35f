from collections.abc import Iterator

import pytest

from tests.workers.paper_driver import Paper, code, on_paper
from tests.workers.runner.plans import bundle_of, kernel, slots_of
from workers import driver
from workers.orders import Side
from workers.runner import graphs as module
from workers.runner.graphs import Graphs

SLOTS = tuple(slots_of(bundle_of(kernel()), 3))


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper() as found:
        yield found


def calls(count: int) -> list:
    """As many launches of a kernel, each with its number."""
    function = driver.load_function(code(1, "work"), "kernel", 0)
    launch = driver.make_launcher(function, (1, 1, 1), 32, 0)
    kept = [driver.Parameters([number]) for number in range(count)]
    return [lambda stream, each=each: launch(stream, each.address) for each in kept]


def test_calls_run_in_order_as_one(paper: Paper) -> None:
    run = Graphs(5).find((Side.PACER, 0, SLOTS), lambda: calls(3))
    assert not paper.launched
    run(5)
    assert [launched.parameters for launched in paper.launched] == [(0,), (1,), (2,)]
    assert paper.log == ["graph"]


@pytest.mark.parametrize(
    ("key", "captured"),
    [
        ((Side.PACER, 0, SLOTS), 3),
        ((Side.CANDIDATE, 0, SLOTS), 2),
        ((Side.PACER, 1, SLOTS), 2),
        ((Side.PACER, 0, SLOTS[::-1]), 2),
    ],
)
def test_equal_samples_are_captured_once(paper: Paper, key, captured: int) -> None:
    graphs = Graphs(5)
    graphs.find((Side.PACER, 0, SLOTS), lambda: calls(3))
    graphs.find(key, lambda: calls(2))(5)
    assert len(paper.launched) == captured


def test_what_was_captured_is_not_bound_again(paper: Paper) -> None:
    bound = []
    graphs = Graphs(5)
    for _ in range(2):
        graphs.find((Side.PACER, 0, SLOTS), lambda: bound.append(True) or calls(1))
    assert bound == [True]
    graphs.clear()
    graphs.find((Side.PACER, 0, SLOTS), lambda: bound.append(True) or calls(1))
    assert bound == [True, True]


def test_graphs_are_forgotten_when_they_are_too_many(paper: Paper, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    graphs = Graphs(5)
    for index, destroyed in enumerate((0, 0, 3)):
        graphs.find((Side.PACER, index, SLOTS), lambda: calls(1))
        graphs.trim()
        assert paper.destroyed == destroyed


def test_nothing_is_kept_after_clearing(paper: Paper) -> None:
    graphs = Graphs(5)
    graphs.find((Side.PACER, 0, SLOTS), lambda: calls(1))
    graphs.clear()
    graphs.clear()
    assert paper.destroyed == 1
