"""Copies: the time in which a card reads and writes as many bytes as an operator must, in the harness of the baselines.

A theoretical peak is no time that any kernel reaches at an operator's size. A plain copy of the same bytes is. Nothing
is judged by it.
"""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any

import torch

from workers.baselines.head_to_head import HeadToHead, Interlude
from workers.baselines.input_sets import sets_of
from workers.baselines.messages import CopySize, CopyTime
from workers.device_kernels import COPY_ALIGNMENT, COPY_BLOCKS, DeviceKernels
from workers.driver import DriverCard
from workers.gpu_lock import GpuLock
from workers.runner.arena import ALIGNMENT, Arena


class CopyTimer:
    """Timer of copies on the card that is open in this thread.

    Args:
        support: Our kernels, those of `compile_copies` included.
        card: The card.
        gpu_lock: Lock of the card.
    """

    def __init__(self, support: DeviceKernels, card: DriverCard, gpu_lock: GpuLock) -> None:
        self._support = support
        self._l2_bytes = card.l2_bytes
        self._device = torch.device("cuda", card.index)
        self._gpu_lock = gpu_lock

    def time(self, size: CopySize) -> CopyTime:
        """Time a size with each block size; the fastest counts.

        Raises:
            RuntimeError: If it does not fit in the card's memory.
        """
        free_bytes, _ = torch.cuda.mem_get_info(self._device)
        places = copy_places(size, self._l2_bytes, free_bytes)
        if not places:
            raise RuntimeError(f"a copy of {size.read_bytes + size.written_bytes} bytes does not fit the free memory")
        with self._gpu_lock.shared(), closing(Arena.allocate(places[-1][1] + step_of(size)[1])) as arena:
            make_stream: Any = torch.cuda.Stream
            stream: torch.cuda.Stream = make_stream(self._device)
            with arena.queue(stream.cuda_stream):
                arena.tensor(0, arena.bytes).view(torch.int32).random_()
            head_to_head = HeadToHead(Interlude(self._support, self._l2_bytes, self._device), stream, len(places))
            torch.cuda.synchronize()
            with self._gpu_lock.exclusive():
                for block in COPY_BLOCKS:
                    head_to_head.enter(str(block), partial(self._copy, arena.pointer, size, places, block))
                times = head_to_head.run()
        return CopyTime(size=size, time_us=min(map(median, times.values())))

    def _copy(self, base: int, size: CopySize, places: Sequence[tuple[int, int]], block: int, number: int) -> None:
        source, target = places[number]
        stream = torch.cuda.current_stream(self._device).cuda_stream
        self._support.copy(stream, block, (base + source, size.read_bytes), (base + target, size.written_bytes))


def copy_places(size: CopySize, l2_bytes: int, free_bytes: int) -> list[tuple[int, int]]:
    """Return the places of distinct copies in one block of memory, (source, target); empty if none fits.

    Together they are larger than the cache, as the sets of the baselines are.

    Args:
        size: Size of each copy.
        l2_bytes: Size of the card's L2 cache.
        free_bytes: Free bytes of the card's memory.
    """
    source, target = step_of(size)
    count = sets_of(size.read_bytes, source + target, l2_bytes, free_bytes)
    return [(number * (source + target), number * (source + target) + source) for number in range(count)]


def step_of(size: CopySize) -> tuple[int, int]:
    """Return the bytes that source and target of a copy take, each aligned and at least one vector long."""
    assert ALIGNMENT % COPY_ALIGNMENT == 0
    source, target = (max(1, -(-each // ALIGNMENT)) * ALIGNMENT for each in (size.read_bytes, size.written_bytes))
    return source, target
