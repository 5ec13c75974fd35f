"""Timing on a card: equal contenders are equal, and twice the work takes twice the time."""

import pytest
import torch

from workers import driver
from workers.baselines.figures import summarise
from workers.baselines.head_to_head import HeadToHead, Interlude
from workers.device_kernels import DeviceKernels, compile_support

pytestmark = pytest.mark.gpu
SETS = 16


@pytest.fixture(scope="module")
def figures():
    card, device = driver.open_card(0), torch.device("cuda", 0)
    interlude = Interlude(DeviceKernels(compile_support("sm_90")), card.l2_bytes, device)
    inputs = [torch.randn(4096, 4096, device=device, dtype=torch.bfloat16) for _ in range(SETS)]
    head_to_head = HeadToHead(interlude, torch.cuda.Stream(device), SETS)
    torch.cuda.synchronize()
    head_to_head.enter("pacer", lambda number: inputs[number].neg())
    head_to_head.enter("same", lambda number: inputs[number].neg())
    head_to_head.enter("twice", lambda number: (inputs[number].neg(), inputs[number - 1].neg()))
    return summarise("M=4096,N=4096", head_to_head.run(), {}).figures


def test_equal_contenders_are_equal_within_their_interval(figures):
    assert figures["same"].half_width < 0.01
    assert abs(figures["same"].over_pacer - 1) < figures["same"].half_width + 0.005


def test_twice_the_work_takes_twice_the_time(figures):
    assert figures["twice"].over_pacer == pytest.approx(2, rel=0.1)


def test_memory_is_read_cold(figures):
    """33.5 MB in and as much out take no less than the card's 4.8 TB/s allow; from the cache they would."""
    assert figures["same"].time_us > 2 * 4096 * 4096 * 2 / 4.8e6
