"""Fixtures for every room: real servers, started once a session where a test asks for one."""

import gc
import os
from collections.abc import Generator, Iterator

import pytest
import structlog
import torch
from hypothesis import settings

from tests.costs import pytest_runtest_setup, pytest_runtest_teardown
from tests.postgres import postgres
from tests.redis import dispatcher, redis_server, redis_url
from tests.traces import FOLDER
from tests.warm import installed, run_folder
from workers.logs import renderers

__all__ = [
    "dispatcher",
    "postgres",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "redis_server",
    "redis_url",
]

# Small tensors are slower on many threads. The variable is for processes that tests start: here torch has read it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)

# Cores are shared: how long an example takes says nothing.
settings.register_profile("shared cores", deadline=None)
settings.load_profile("shared cores")

# What is logged here goes through no process's `configure`; by itself structlog draws traces with Rich, in colours and
# with all values, at half a second of processor time each.
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], *renderers(as_json=False)])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off modules and tests, which stay to the end: to look through them takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty data folder and no settings, whatever whoever runs the tests keeps and has set."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("REEF_")]:
            environment.delenv(name)
        environment.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data_home")))
        traces = run_folder(tmp_path_factory) / "traces"
        traces.mkdir(exist_ok=True)
        environment.setenv(FOLDER, str(traces))
        environment.setenv("PYTHONPATH", str(installed(tmp_path_factory)), prepend=os.pathsep)
        yield


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test starts starts as it does for users: benches import what they need themselves."""
    monkeypatch.delenv("PYTHONPATH")
