"""How many sets of inputs a shape gets: more than a cache holds, no more than fit."""

from itertools import pairwise

import pytest
import torch

from tests.workers.assembler.modules import kernel_of, module
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.baselines.input_sets import CACHES, FEWEST, MEMORY_SHARE, MOST, count_sets, lay_out
from workers.memory_layout import SMALL_ZONE_BYTES, slot_bytes

KERNEL = kernel_of(module(""))
L2_BYTES, FREE_BYTES = 60 * 2**20, 120 * 2**30


def count(rows: int, columns: int, l2_bytes: int = L2_BYTES, free_bytes: int = FREE_BYTES) -> int:
    plan = rmsnorm_plan(KERNEL, {"M": rows, "N": columns})
    return count_sets(RMSNORM, bundle_of(KERNEL, plan), plan, l2_bytes, free_bytes)


def test_sets_hold_more_than_five_caches_and_a_sample_reads():
    sets = count(4096, 4096)
    assert sets * RMSNORM.input_bytes({"M": 4096, "N": 4096}) >= CACHES * L2_BYTES
    assert count(4096, 4096, l2_bytes=2**29) > sets


@pytest.mark.parametrize(("rows", "columns", "sets"), [(1, 16, MOST), (16384, 16384, FEWEST)])
def test_there_are_neither_endless_nor_too_few(rows, columns, sets):
    assert count(rows, columns) == sets


def test_sets_leave_memory_to_the_contenders():
    plan = rmsnorm_plan(KERNEL, {"M": 65536, "N": 16384})
    room = slot_bytes(bundle_of(KERNEL, plan), plan, SMALL_ZONE_BYTES)
    assert count(65536, 16384, free_bytes=3 * MEMORY_SHARE * room) == 3
    assert count(65536, 16384, free_bytes=room) == 0


def test_sets_lie_apart_and_hold_different_content():
    plan = rmsnorm_plan(KERNEL, {"M": 5, "N": 16})
    bundle = bundle_of(KERNEL, plan)
    memory = torch.zeros(3 * slot_bytes(bundle, plan, SMALL_ZONE_BYTES), dtype=torch.uint8)

    def look(view, offset):
        dtype = getattr(torch, view.dtype)
        return memory.view(dtype).as_strided(view.shape, view.strides, offset // dtype.itemsize)

    sets = lay_out(RMSNORM, bundle, plan, 3, look)
    assert [tuple(tensor.shape) for tensor in sets[0].inputs] == [(5, 16), (16,)]
    assert all(before.slot.end <= after.slot.start for before, after in pairwise(sets))
    assert sets[2].inputs[0].data_ptr() == memory.data_ptr() + sets[2].slot.buffers[0]
    assert 0.5 < sets[0].inputs[0].float().std() < 2
    assert not torch.equal(sets[0].inputs[0], sets[1].inputs[0])
