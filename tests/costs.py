"""Seconds of processor time of each test, as a property of its case in the report; see `benchmarks.durations`."""

import os
from collections.abc import Generator

import pytest

BEGAN = pytest.StashKey[float]()


def processor_s() -> float:
    """Of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Begin before the first fixture."""
    item.stash[BEGAN] = processor_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """End behind the last one."""
    try:
        return (yield)
    finally:
        item.user_properties.append(("processor_s", f"{processor_s() - item.stash[BEGAN]:.2f}"))
