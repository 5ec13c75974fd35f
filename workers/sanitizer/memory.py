"""Memory for a replay under the sanitizer: an allocation of exact size per buffer, kept until the process ends.

Adjacent buffers of an arena hide an overrun; between allocations the tool sees every byte. Nothing is freed, so an
address belongs to one buffer of one plan while the process lives. When the card is full, another process continues.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import torch

from workers import driver
from workers.commands import RunSlot
from workers.memory_layout import MemoryPiece, pieces_of
from workers.protocol import Bundle, View
from workers.protocol.plan import Plan
from workers.runner.arena import as_tensor

END = 2**62
"""Upper bound of all addresses of a card."""


class Allocations:
    """The whole address space of a card, in the form of one arena that begins at zero.

    Attributes:
        pointer: Address of the arena.
        bytes: Size of the arena.
        sizes: Bytes of every allocation made here, by address.
    """

    def __init__(self, card: int) -> None:
        """Use a card, by its index, that is open in this thread."""
        self.pointer, self.bytes = 0, END
        self.sizes: dict[int, int] = {}
        self._card = card

    def slot(self, bundle: Bundle, plan: Plan) -> RunSlot:
        """Allocate memory for one run of a plan.

        Raises:
            DriverError: If the card is out of memory.
        """
        buffers, scratch = pieces_of(bundle, plan)
        addresses = [self.take(piece) for piece in buffers]
        scratched = [self.take(piece) if piece.bytes else -1 for piece in chain.from_iterable(scratch)]
        pairs = tuple(zip(scratched[::2], scratched[1::2], strict=True))
        return RunSlot(start=0, end=END, buffers=tuple(addresses), scratch=pairs, zones=())

    def take(self, piece: MemoryPiece) -> int:
        """Allocate a piece; more than its size only if the driver's alignment does not suffice.

        Raises:
            DriverError: If the card is out of memory.
        """
        size = max(1, piece.bytes)
        address = driver.allocate(size)
        if address % piece.alignment:
            address = driver.allocate(size + piece.alignment)
            address = -(-address // piece.alignment) * piece.alignment
        self.sizes[address] = size
        return address

    def view(self, view: View, base_offset: int) -> torch.Tensor:
        """Return a plan's view in the buffer at an address.

        Raises:
            ValueError: If no buffer begins there.
        """
        if base_offset not in self.sizes:
            raise ValueError(f"no buffer begins at {base_offset:#x}")
        torch.cuda.set_device(self._card)
        dtype: torch.dtype = getattr(torch, view.dtype)
        whole = self.sizes[base_offset] // dtype.itemsize * dtype.itemsize
        elements = as_tensor(base_offset, whole).view(dtype)
        return elements.as_strided(view.shape, view.strides, view.offset_bytes // dtype.itemsize)

    def queue(self, stream: int) -> AbstractContextManager[object]:
        """Return a context in which torch enqueues its work on a stream."""
        external: Any = torch.cuda.ExternalStream
        return torch.cuda.stream(external(stream, device=torch.device("cuda", self._card)))


def write(stream: int, address: int, values: torch.Tensor) -> None:
    """Copy a host tensor to the card, and wait until the copy is done."""
    content = values.contiguous().reshape(-1).view(torch.uint8)
    driver.write(stream, address, content.data_ptr(), content.numel())
    driver.synchronise(stream)


def in_order(slot: RunSlot) -> Iterator[int]:
    """Return the addresses of a slot's allocations: buffers, then scratch."""
    taken: Sequence[int] = (*slot.buffers, *chain.from_iterable(slot.scratch))
    return (address for address in taken if address >= 0)
