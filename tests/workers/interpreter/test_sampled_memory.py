"""Memory whose unwritten parts repeat the written ones."""

import numpy as np
import pytest
import torch

from workers.interpreter.memory import TILE_BYTES, DeviceMemory, LaneGroup
from workers.interpreter.sampled_memory import SampledMemory
from workers.protocol import View

LANES = LaneGroup(np.arange(1), np.zeros((1, 3), dtype=np.int64))
SIZE = 1 << 20


def memory():
    given = np.tile(np.array([1, 0, 2, 0], np.int64).view(np.uint8), TILE_BYTES // 32 + 1)[:TILE_BYTES]
    return SampledMemory([SIZE, SIZE, SIZE], {0: given}, np.random.default_rng(1))


def test_no_two_places_are_alike_as_they_are_of_the_same_tile():
    tile = np.arange(TILE_BYTES // 8).view(np.uint8)
    one, other = (SampledMemory([SIZE], {0: tile}, np.random.default_rng(seed)) for seed in (1, 2))
    starts = [
        [memory._read(np.dtype(np.int64), LANES.draws, np.array([turn * TILE_BYTES // 8]))[0, 0] for turn in range(15)]
        for memory in (one, other)
    ]
    assert all(len(set(found)) == 15 for found in starts) and starts[0] != starts[1]
    whole = one._read(np.dtype(np.int64), LANES.draws, TILE_BYTES // 8 + np.arange(TILE_BYTES // 8))[0]
    assert (np.sort(whole) == np.arange(TILE_BYTES // 8)).all()


def view(buffer, elements=SIZE // 4, dtype="int32"):
    return View(buffer=buffer, shape=(elements,), strides=(1,), dtype=dtype)


def write(seeming, buffer, place, values):
    index = np.arange(place, place + len(values))
    seeming._write(np.dtype(np.int32), LANES.draws, seeming._starts[buffer] // 4 + index, np.array([values], np.int32))


def read(seeming, buffer, place, count=4):
    index = seeming._starts[buffer] // 4 + np.arange(place, place + count)
    return seeming._read(np.dtype(np.int32), LANES.draws, index)[0].tolist()


def test_what_is_written_in_part_seems_to_be_full_of_it_afterwards():
    seeming = memory()
    write(seeming, 1, 100, [7, 8])
    assert (read(seeming, 1, 99), read(seeming, 1, 5000)) == ([0, 7, 8, 0], [0] * 4), "not while it is being written"
    seeming.settle(in_part=True)
    assert set(read(seeming, 1, 5000)) == {7, 8}
    assert read(seeming, 1, 100, 2) == [7, 8]
    assert read(seeming, 2, 5000) == [0] * 4


def test_what_is_written_as_a_whole_is_as_it_was_written():
    seeming = memory()
    write(seeming, 1, 100, [7, 8])
    seeming.settle(in_part=False)
    assert read(seeming, 1, 99) == [0, 7, 8, 0]


def test_inputs_stay_what_they_are():
    seeming = memory()
    before = read(seeming, 0, 5000)
    write(seeming, 0, 100, [7, 7])
    seeming.settle(in_part=True)
    assert read(seeming, 0, 5000) == before


@pytest.mark.parametrize("value", [0, 3])
def test_fills_hold_everywhere(value):
    seeming = memory()
    write(seeming, 1, 100, [7, 8])
    seeming.settle(in_part=True)
    seeming.fill(view(1), value)
    assert read(seeming, 1, 99) == read(seeming, 1, 5000) == [value] * 4
    seeming.fill(view(2, 10), 5)
    assert read(seeming, 2, 8) == [5, 5, 0, 0]


def test_copies_are_like_what_was_copied():
    seeming = memory()
    seeming.copy(view(0, SIZE // 8, "int64"), view(1, SIZE // 8, "int32"))
    assert sorted(read(seeming, 1, 5000)) == [0, 0, 1, 2], "numbers of another dtype"
    write(seeming, 2, 100, [7, 8])
    seeming.settle(in_part=True)
    seeming.copy(view(2), view(1))
    assert read(seeming, 1, 100, 2) == [7, 8]
    assert set(read(seeming, 1, 5000)) == {7, 8}


def test_memory_that_is_executed_as_a_whole_is_unlike_it():
    plain = DeviceMemory(1, [SIZE], [""])
    assert torch.equal(plain.tensor(0, view(0)), torch.full((SIZE // 4,), -1, dtype=torch.int32)), "poisoned"
