"""The memory model by itself: bounds, undo, order of updates."""

import itertools

import numpy as np
import pytest
import torch
from triton import language as tl

from workers.interpreter.faults import OutOfBounds
from workers.interpreter.memory import ALIGNMENTS, TILE_BYTES, DeviceMemory, LaneGroup
from workers.protocol import View

BOTH = LaneGroup(np.arange(2), np.zeros((1, 3), dtype=np.int64))


def filled() -> DeviceMemory:
    memory = DeviceMemory(2, [16, 6, 0], ["'x'", "'y'", "'z'"])
    for draw in range(2):
        memory.bytes_of(draw, 0)[:] = (np.arange(4, dtype=np.float32) + 10 * draw).view(np.uint8)
    return memory


def addresses(memory: DeviceMemory, buffer: int, *offsets: int) -> np.ndarray:
    return np.array([[[memory.address(buffer, offset) for offset in offsets]]])


def test_one_address_reads_every_draw():
    memory = filled()
    values = memory.load(addresses(memory, 0, 12, 0), None, tl.float32, BOTH)
    assert values.tolist() == [[[3.0, 0.0]], [[13.0, 10.0]]]
    assert memory.meter.moved_bytes == 8


def test_draws_find_different_poison():
    memory = DeviceMemory(4, [8], ["'x'"])
    assert [set(memory.bytes_of(draw, 0).tolist()) for draw in range(3)] == [{0xFF}, {0}, {0x3F}]
    drawn = {DeviceMemory(draws, [8], ["'x'"]).bytes_of(draws - 1, 0).tobytes() for draws in (2, 2, 3, 4, 4)}
    assert len(drawn) == 5, "nobody knows them all"
    assert set(DeviceMemory(1, [8], ["'x'"], {}).bytes_of(0, 0).tolist()) == {0}


def test_a_tile_repeats_where_its_buffer_is_zero():
    tile = np.arange(1, TILE_BYTES // 4 + 1, dtype=np.float32)
    memory = DeviceMemory(1, [8, 2 * TILE_BYTES], ["'x'", "'y'"], {1: tile.view(np.uint8)})
    one = LaneGroup(np.arange(1), np.zeros((1, 3), dtype=np.int64))
    last = 2 * TILE_BYTES - 4
    assert memory.load(addresses(memory, 0, 4), None, tl.float32, one).tolist() == [[[0.0]]]
    found = memory.load(addresses(memory, 1, 0, 4, TILE_BYTES, last), None, tl.float32, one).ravel().tolist()
    assert found == [1.0, 2.0, 1.0, TILE_BYTES / 4]
    memory.store(addresses(memory, 1, 4), np.array([[[7.0]]], np.float32), None, tl.float32, one)
    assert memory.load(addresses(memory, 1, 4, 8), None, tl.float32, one).ravel().tolist() == [7.0, 3.0]


def test_addresses_may_differ_between_draws():
    memory = filled()
    address = np.concatenate([addresses(memory, 0, 0), addresses(memory, 0, 4)])
    assert memory.load(address, None, tl.float32, BOTH).ravel().tolist() == [0.0, 11.0]
    memory.store(address, np.array([[[5.0]], [[6.0]]], np.float32), None, tl.float32, BOTH)
    assert memory.load(addresses(memory, 0, 0, 4), None, tl.float32, BOTH).tolist() == [[[5.0, 1.0]], [[10.0, 6.0]]]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (lambda memory: addresses(memory, 0, 16), "element 4 of 'x', which holds 4"),
        (lambda memory: addresses(memory, 0, 0, -4), "element -1 of 'x'"),
        (lambda memory: addresses(memory, 1, 4), "element 1 of 'y', which holds 1"),
        (lambda memory: addresses(memory, 2, 0), "element 0 of 'z', which holds 0"),
        (lambda memory: np.array([[[0]]]), "in no buffer"),
        (lambda memory: np.concatenate([addresses(memory, 0, 0), np.array([[[1 << 62]]])], 2), "in no buffer"),
        (lambda memory: addresses(memory, 0, 2), "no multiple of 4"),
    ],
)
def test_stray_addresses_are_named(address, message):
    memory = filled()
    with pytest.raises(OutOfBounds, match=message):
        memory.load(address(memory), None, tl.float32, BOTH)


def test_addresses_look_like_a_cards_and_nobody_knows_them_beforehand():
    found = set()
    for _ in range(3):
        memory = DeviceMemory(1, [5] * 200 + [1 << 30], ["'x'"] * 201, {})
        starts = sorted(memory.address(buffer, 0) for buffer in range(201))
        assert starts[0] > 0x7F << 40 and starts[-1] + (1 << 30) < 1 << 47
        assert all(start % 256 == 0 for start in starts)
        assert all(second - first > 1 << 31 for first, second in itertools.pairwise(starts))
        found |= {starts[0] % 2**40, starts[1] - starts[0], memory.address(0, 0)}
        aligned = sum(start % ALIGNMENTS[-1] == 0 for start in starts)
        assert 50 < aligned < 150  # chance has it otherwise once in 10**12
    assert len(found) == 9


def test_buffers_may_be_as_near_as_an_allocator_lays_them():
    memory = DeviceMemory(1, [5] * 200 + [1 << 30], ["'x'"] * 201, {}, is_near=True)
    starts = sorted(memory.address(buffer, 0) for buffer in range(201))
    assert all(
        1 << 12 <= second - first < 5 << 20 for first, second in itertools.pairwise(starts) if second - first < 1 << 30
    )
    assert starts[-1] - starts[0] < 1 << 31
    assert starts[0] > 0x7F << 40 and starts[0] != min(
        DeviceMemory(1, [5], ["'x'"], {}, is_near=True).address(0, 0) for _ in range(2)
    )


def test_neighbours_are_as_chance_has_it():
    orders = {
        DeviceMemory(1, [4, 4], ["", ""]).address(0, 0) < DeviceMemory(1, [4, 4], ["", ""]).address(1, 0)
        for _ in range(50)
    }
    assert orders == {True, False}


def test_some_addresses_may_be_in_one_buffer_and_some_in_another():
    memory = filled()
    address = np.concatenate([addresses(memory, 1, 0), addresses(memory, 0, 12)], 2)
    memory.store(address, np.array([[[5.0, 6.0]]], np.float32), None, tl.float32, BOTH)
    assert memory.load(address, None, tl.float32, BOTH).tolist() == [[[5.0, 6.0]], [[5.0, 6.0]]]


def test_stray_addresses_that_are_masked_off_are_fine():
    memory = filled()
    address = addresses(memory, 0, 0, 400)
    mask = np.array([[[True, False]]])
    assert memory.load(address, mask, tl.float32, BOTH).tolist() == [[[0.0, 0.0]], [[10.0, 0.0]]]
    memory.store(address, np.full((1, 1, 2), 7.0, np.float32), mask, tl.float32, BOTH)
    assert memory.meter.moved_bytes == 8
    assert not memory.load(address, np.zeros_like(mask), tl.float32, BOTH).any()


def test_undo_takes_back_stores_and_updates_in_reverse():
    memory = filled()
    before = memory.bytes_of(1, 0).copy()
    for value in (1.0, 2.0):
        memory.store(addresses(memory, 0, 4), np.full((1, 1, 1), value, np.float32), None, tl.float32, BOTH)
    memory.update(addresses(memory, 0, 4, 4), [np.ones((1, 1, 1), np.float32)], None, tl.float32, BOTH, np.add)
    assert memory.load(addresses(memory, 0, 4), None, tl.float32, BOTH).ravel().tolist() == [4.0, 4.0]
    memory.undo()
    assert (memory.bytes_of(1, 0) == before).all()


def test_forgotten_writes_stay():
    memory = filled()
    memory.store(addresses(memory, 0, 4), np.full((1, 1, 1), 9.0, np.float32), None, tl.float32, BOTH)
    memory.forget()
    memory.undo()
    assert memory.load(addresses(memory, 0, 4), None, tl.float32, BOTH).ravel().tolist() == [9.0, 9.0]


def test_updates_of_one_place_follow_each_other():
    lanes = LaneGroup(np.arange(2), np.zeros((3, 3), dtype=np.int64))
    memory = filled()
    found = memory.update(addresses(memory, 0, 0), [np.ones((1, 1, 1), np.float32)], None, tl.float32, lanes, np.add)
    assert found.reshape(2, 3).tolist() == [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]


def test_views_share_the_memory():
    memory = filled()
    view = View(buffer=0, offset_bytes=4, shape=(2,), strides=(2,), dtype="float32")
    assert memory.tensor(0, view).tolist() == [1.0, 3.0]
    memory.tensor(1, view).fill_(-1)
    assert memory.load(addresses(memory, 0, 0, 4, 12), None, tl.float32, BOTH)[1].tolist() == [[10.0, -1.0, -1.0]]


def test_fresh_memory_is_poisoned():
    memory = DeviceMemory(1, [8], ["'x'"])
    assert torch.from_numpy(memory.bytes_of(0, 0).copy()).view(torch.float32).isnan().all()
    assert torch.from_numpy(memory.bytes_of(0, 0).copy()).view(torch.bfloat16).isnan().all()
