"""Memory of a sampled plan: unwritten parts of a buffer repeat the written ones.

A sampled launch writes only a few of its results, and the next one may read all of them. With zeros in the gaps, a
kernel that skips zeros would appear to do no work.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from workers.interpreter.faults import Array
from workers.interpreter.memory import TILE_BYTES, DeviceMemory
from workers.protocol import DTYPE_BYTES, View

WIDEST = max(DTYPE_BYTES.values())
"""Bytes of the largest element."""


class SampledMemory(DeviceMemory):
    """Buffers that repeat a tile wherever they are zero, each time rotated by a random number of bytes.

    So no candidate can predict two places with equal content.
    """

    def __init__(self, sizes: Sequence[int], inputs: Mapping[int, Array], turns: np.random.Generator) -> None:
        """Make buffers of one draw.

        Args:
            sizes: Bytes of each buffer.
            inputs: Content of buffers: all of it, or a tile of `TILE_BYTES` that they repeat from the start.
            turns: Draws the rotations.
        """
        tiles = {buffer: content for buffer, content in inputs.items() if len(content) != sizes[buffer]}
        super().__init__(1, sizes, [""] * len(sizes), tiles)
        for buffer in inputs.keys() - tiles.keys():
            self.bytes_of(0, buffer)[:] = inputs[buffer]
        self._turns = turns.integers(0, TILE_BYTES // WIDEST, len(self._turns)) * WIDEST
        self._given = frozenset(inputs)
        self._last: dict[int, Array] = {}
        self._written = set[int]()

    def settle(self, in_part: bool) -> None:
        """End a launch: buffers that it wrote in part repeat its last values.

        Args:
            in_part: True if only some of its programs were executed.
        """
        for buffer, values in self._last.items():
            if buffer not in self._given:
                self._seem(buffer, values if in_part else np.zeros(1, np.uint8))
        self._last.clear()

    def fill(self, target: View, value: float) -> None:
        """Fill a tensor."""
        if self._is_whole(target):
            dtype: torch.dtype = getattr(torch, target.dtype)
            self._seem(target.buffer, torch.full((1,), value, dtype=dtype).view(torch.uint8).numpy())
            if target.buffer in self._written:
                self.bytes_of(0, target.buffer)[:] = 0
        else:
            self._written.add(target.buffer)
            self.tensor(0, target).fill_(value)

    def copy(self, source: View, target: View) -> None:
        """Copy a tensor. The target repeats the source's tile, in any order."""
        number = self._tile_of[source.buffer]
        if number:
            tile = torch.from_numpy(self._tiles[number].copy()).view(getattr(torch, source.dtype))
            self._seem(target.buffer, tile.to(getattr(torch, target.dtype)).view(torch.uint8).numpy())
        if source.buffer in self._written:
            self._written.add(target.buffer)
            self.tensor(0, target).copy_(self.tensor(0, source))

    def _is_whole(self, view: View) -> bool:
        return view.elements * DTYPE_BYTES[view.dtype] >= self.size([view.buffer])

    def _seem(self, buffer: int, content: Array) -> None:
        """Set the bytes that a buffer repeats."""
        tile = np.resize(content, TILE_BYTES)
        if not self._tile_of[buffer]:
            self._tile_of[buffer] = len(self._tiles)
            self._tiles = np.concatenate([self._tiles, tile[None]])
        else:
            self._tiles[self._tile_of[buffer]] = tile

    def _write(self, stored: np.dtype[np.generic], draws: Array, index: Array, values: Array) -> None:
        super()._write(stored, draws, index, values)
        if index.size:
            place = int(index.reshape(-1)[0]) * stored.itemsize
            buffer = int(np.searchsorted(self._starts, place, side="right")) - 1
            self._written.add(buffer)
            self._last[buffer] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)[:TILE_BYTES].copy()
