"""A bench that is a fork of the warm server is a bench like any other, to whoever started it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.warm import OWNER, installed
from workers.executor_client import ExecutorClient

COMMAND = (sys.executable, "-m", "workers", "bench", "trace")
READY_S = 120.0


@pytest.fixture
def launch() -> Iterator[Callable[..., ExecutorClient]]:
    benches: list[ExecutorClient] = []

    def launch(*options: str) -> ExecutorClient:
        benches.append(ExecutorClient((*COMMAND, *options)))
        return benches[-1]

    yield launch
    for bench in benches:
        bench.kill()


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def forks(server: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found |= {int(path.name)} if parent_of(int(path.name)) == server else set()
        except OSError:
            continue
    return found


@pytest.fixture
def server(launch, tmp_path_factory) -> int:
    """The process that forks, which the first bench has started."""
    assert launch().ready(READY_S)
    return int((installed(tmp_path_factory) / "server").read_text())


def test_a_bench_that_is_killed_takes_its_fork_along(launch, server) -> None:
    before = forks(server)
    bench = launch()
    assert bench.ready(READY_S)
    (fork,) = forks(server) - before
    bench.kill()
    until = time.monotonic() + READY_S
    while fork in forks(server) and time.monotonic() < until:
        time.sleep(0.01)
    assert fork not in forks(server)


def test_it_ends_as_its_fork_ends(launch, server) -> None:
    refused = subprocess.run((*COMMAND[:-1], "neither"), capture_output=True, text=True)
    assert refused.returncode == 2
    said = subprocess.run((*COMMAND, "--unheard"), capture_output=True, text=True)
    assert said.returncode == 2 and "--unheard" in said.stderr
    before = forks(server)
    bench = launch()
    assert bench.ready(READY_S)
    (fork,) = forks(server) - before
    os.kill(fork, signal.SIGSEGV)
    with pytest.raises(Exception, match="status -11"):
        bench.poll(READY_S)


def test_the_server_belongs_to_one_run(tmp_path_factory) -> None:
    owner = int((installed(tmp_path_factory) / OWNER).read_text())
    assert owner in (os.getpid(), os.getppid())


def test_without_it_a_bench_starts_as_for_users(cold, launch, tmp_path_factory) -> None:
    bench = launch()
    assert bench.ready(READY_S)
    assert str(installed(tmp_path_factory)) not in os.environ.get("PYTHONPATH", "")
