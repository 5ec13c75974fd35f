"""Places of copies in memory; the timing itself is tried on a card, in tests/gpu."""

from itertools import pairwise

import pytest

from workers.baselines.copies import copy_places, step_of
from workers.baselines.input_sets import CACHES, FEWEST, MOST, SETS_BYTES
from workers.baselines.messages import CopySize
from workers.device_kernels import COPY_ALIGNMENT
from workers.runner.arena import ALIGNMENT

L2_BYTES, FREE_BYTES = 50 * 2**20, 80 * 2**30


def size(read: int, written: int) -> CopySize:
    return CopySize(read_bytes=read, written_bytes=written)


@pytest.mark.parametrize("each", [size(2**26, 2**26), size(2**20, 4), size(12, 2**20), size(0, 1), size(1, 0)])
def test_no_two_copies_share_memory_and_each_has_room_for_whole_vectors(each: CopySize) -> None:
    places = copy_places(each, L2_BYTES, FREE_BYTES)
    ranges = []
    for source, target in places:
        for start, length in ((source, each.read_bytes), (target, each.written_bytes)):
            ranges.append((start, start + max(COPY_ALIGNMENT, -(-length // COPY_ALIGNMENT) * COPY_ALIGNMENT)))
    assert all(start % ALIGNMENT == 0 for start, _ in ranges)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))
    assert ranges[-1][1] <= places[-1][1] + step_of(each)[1]


def test_copies_together_exceed_the_cache_as_the_sets_of_baselines_do() -> None:
    assert len(copy_places(size(2**26, 2**26), L2_BYTES, FREE_BYTES)) == SETS_BYTES // 2**26
    assert len(copy_places(size(2**30, 2**30), L2_BYTES, FREE_BYTES)) == FEWEST
    assert len(copy_places(size(4096, 4096), L2_BYTES, FREE_BYTES)) == MOST
    assert CACHES * L2_BYTES < SETS_BYTES


def test_nothing_is_placed_without_memory() -> None:
    assert copy_places(size(2**33, 2**33), L2_BYTES, 2**34) == []
