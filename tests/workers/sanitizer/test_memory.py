from itertools import chain

import pytest
import torch

from tests.workers.paper_driver import on_paper
from tests.workers.runner.plans import COUNT, bundle_of, kernel, whole
from workers import driver
from workers.memory_layout import MemoryPiece
from workers.sanitizer.memory import Allocations, in_order, write


def test_every_buffer_is_an_allocation_of_exactly_its_size() -> None:
    bundle = bundle_of(kernel(global_scratch_bytes=7, profile_scratch_bytes=0))
    with on_paper():
        memory = Allocations(0)
        slot = memory.slot(bundle, bundle.plans[0])
        sizes = [memory.sizes[address] for address in in_order(slot)]
    assert sizes == [*(buffer.bytes for buffer in bundle.plans[0].buffers), 7 * 3]
    assert slot.zones == () and len(set(slot.buffers)) == len(slot.buffers)
    assert [address >= 0 for address in chain.from_iterable(slot.scratch)] == [True, False]


def test_a_larger_alignment_than_the_drivers_is_kept() -> None:
    with on_paper():
        memory = Allocations(0)
        addresses = [memory.take(MemoryPiece(3, 4096)) for _ in range(4)]
    assert all(address % 4096 == 0 for address in addresses)
    assert set(memory.sizes.values()) == {3}


def test_a_view_needs_a_buffer() -> None:
    with pytest.raises(ValueError, match="no buffer begins at 0x40"):
        Allocations(0).view(whole(0), 64)


def test_values_come_to_the_card() -> None:
    values = torch.arange(COUNT, dtype=torch.float32)
    with on_paper():
        address = Allocations(0).take(MemoryPiece(4 * COUNT))
        write(5, address, values)
        assert driver.read(address, 4 * COUNT) == values.numpy().tobytes()
