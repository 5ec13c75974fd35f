"""Kernels of baselines that are compiled ahead: asked for once and left in a cache."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.compile_ahead import CompileAhead
from tests.workers.checks.cases import graph_of, operator
from workers.protocol import Graph, Operator, Shape


@pytest.fixture
def reference() -> tuple[Operator, Graph]:
    spec = operator("softmax", "float32")
    return spec, graph_of(spec, Shape(dims={"M": 64, "N": 4096}))


@pytest.fixture
def ahead() -> Iterator[CompileAhead]:
    with closing(CompileAhead("sm_90", 1)) as process:
        yield process


def test_without_processes_nothing_is_compiled(reference: tuple[Operator, Graph]) -> None:
    with closing(CompileAhead("sm_90", 0)) as none:
        none.ask(*reference)
        assert none.kernels == 0 and Path(none.environment["TRITON_CACHE_DIR"]).is_dir()
    assert not Path(none.environment["TRITON_CACHE_DIR"]).exists()


def test_it_ends_with_its_owner(ahead: CompileAhead) -> None:
    assert ahead._process is not None
    os.kill(ahead._process.pid, 0)
    ahead.close()
    with pytest.raises(ProcessLookupError):
        os.kill(ahead._process.pid, 0)
    ahead.close()


def test_it_stands_still_while_it_is_held(ahead: CompileAhead) -> None:
    assert ahead._process is not None
    status = Path(f"/proc/{ahead._process.pid}/stat")
    until = time.monotonic() + 10
    with ahead.held():
        while state_of(status) != "T" and time.monotonic() < until:
            time.sleep(0.01)
        assert state_of(status) == "T"
    while state_of(status) == "T" and time.monotonic() < until:
        time.sleep(0.01)
    assert state_of(status) != "T"


def test_asking_for_more_than_a_pipe_holds_waits_for_nothing(reference: tuple[Operator, Graph]) -> None:
    spec, graph = reference
    with closing(CompileAhead("sm_90", 1)) as ahead, ahead.held():
        for number in range(40):  # 3 MB, of which nothing is read.
            text = f"{spec.reference}# {number}\n" + "#" * 80_000
            ahead.ask(spec.model_copy(update={"reference": text}), graph)
        assert len(ahead._asked) == 40


def state_of(status: Path) -> str:
    """The letter behind the program's name."""
    return status.read_text().rpartition(") ")[2][0]


@pytest.mark.slow(reason="TorchInductor is imported, and compiles a softmax twice")
def test_a_reference_s_kernels_of_both_modes_are_left_in_the_cache(
    reference: tuple[Operator, Graph], ahead: CompileAhead
) -> None:
    ahead.ask(*reference)
    ahead.ask(*reference)
    until = time.monotonic() + 300
    # One of the default mode, and several among which max-autotune chooses.
    while ahead.kernels < 2 and time.monotonic() < until:
        time.sleep(0.5)
    assert ahead.kernels >= 2 and len(ahead._asked) == 1
