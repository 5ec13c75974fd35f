"""What tests on a card share: everything traced once, several at a time, and one bench that measures."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.benches import Served, measuring
from tests.gpu.honest import honest_kernels
from tests.gpu.judging import Traces, cards, trace_all
from tests.gpu.rogues import load_rogues
from workers.protocol import MEASURED_DEADLINE_S, Device

DRIVER = Path("/dev/nvidiactl")
"""Where NVIDIA's driver is loaded."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse, where there is no card either, tests on `traces` that do not say by a parameter `name` what to trace.

    Raises:
        pytest.UsageError: If there is one.
    """
    nameless = [item.nodeid for item in _tracing(items) if "name" not in _parameters(item)]
    if nameless:
        raise pytest.UsageError(f"what has 'traces' has a parameter 'name', a kernel's: {', '.join(nameless)}")


@pytest.fixture(scope="session")
def device() -> Device:
    """The first card's hardware class."""
    found = [card for card in cards() if card.number == 0 and card.device is not None]
    if not found and DRIVER.exists():
        pytest.fail("there is a driver, but no card of a class that is measured on: see python -m workers survey")
    if not found:
        pytest.skip("this machine has no card of a class that is measured on")
    return Device.parse(found[0].device)


@pytest.fixture(scope="session")
def traces(request: pytest.FixtureRequest, device: Device) -> Traces:
    """What came of tracing the kernels that the chosen tests are about."""
    chosen = {_parameters(item)["name"] for item in _tracing(request.session.items)}
    kernels = {**load_rogues(), **honest_kernels()}
    return trace_all([kernels[name] for name in sorted(chosen)], device.target)


@pytest.fixture(scope="session")
def card(device: Device, traces: Traces) -> Iterator[Served]:
    """A bench that measures on the first card; started only when nothing is traced any more."""
    with Served(measuring(device), MEASURED_DEADLINE_S) as bench:
        yield bench


def _tracing(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Tests that need something traced."""
    return [item for item in items if "traces" in getattr(item, "fixturenames", ())]


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    """A test's parameters; none where it has none."""
    return item.callspec.params if hasattr(item, "callspec") else {}
