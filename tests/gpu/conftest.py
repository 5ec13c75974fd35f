"""What tests on a card share: everything traced once, several at a time, and one bench that measures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.benches import Served, measuring
from tests.gpu.honest import honest_kernels
from tests.gpu.judging import Traces, cards, trace_all
from tests.gpu.rogues import load_rogues
from workers.protocol import MEASURED_DEADLINE_S, Device

DRIVER = Path("/dev/nvidiactl")
"""Where NVIDIA's driver is loaded."""


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
    chosen = {item.callspec.params["name"] for item in request.session.items if "traces" in item.fixturenames}
    kernels = {**load_rogues(), **honest_kernels()}
    return trace_all([kernels[name] for name in sorted(chosen)], device.target)


@pytest.fixture(scope="session")
def card(device: Device, traces: Traces) -> Iterator[Served]:
    """A bench that measures on the first card; started only when nothing is traced any more."""
    with Served(measuring(device), MEASURED_DEADLINE_S) as bench:
        yield bench
