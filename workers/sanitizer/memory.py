"""Memory for a replay under the sanitizer: each buffer an allocation of exactly its size, kept until the process ends.

Neighbours in an arena hide an overrun from each other; between allocations the tool sees every byte. Because nothing is
freed, an address belongs to one buffer of one plan as long as the process lives; where the card is full, another
process goes on.
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
"""Beyond every address of a card."""


class Allocations:
    """The whole address space of a card, seen as one arena that begins at zero.

    Attributes:
        pointer: Its address.
        bytes: Its size.
        sizes: Bytes of every allocation made here, by address.
    """

    def __init__(self, card: int) -> None:
        """Take over a card that is open in this thread, by its index."""
        self.pointer, self.bytes = 0, END
        self.sizes: dict[int, int] = {}
        self._card = card

    def slot(self, bundle: Bundle, plan: Plan) -> RunSlot:
        """Memory for one run of a plan.

        Raises:
            DriverError: If the card has not enough.
        """
        buffers, scratch = pieces_of(bundle, plan)
        addresses = [self.take(piece) for piece in buffers]
        scratched = [self.take(piece) if piece.bytes else -1 for piece in chain.from_iterable(scratch)]
        pairs = tuple(zip(scratched[::2], scratched[1::2], strict=True))
        return RunSlot(start=0, end=END, buffers=tuple(addresses), scratch=pairs, zones=())

    def take(self, piece: MemoryPiece) -> int:
        """An allocation of a piece's size; more only where the driver aligns it too little.

        Raises:
            DriverError: If the card has not enough.
        """
        size = max(1, piece.bytes)
        address = driver.allocate(size)
        if address % piece.alignment:
            address = driver.allocate(size + piece.alignment)
            address = -(-address // piece.alignment) * piece.alignment
        self.sizes[address] = size
        return address

    def view(self, view: View, base_offset: int) -> torch.Tensor:
        """A plan's view in the buffer at an address.

        Raises:
            ValueError: If there is none.
        """
        if base_offset not in self.sizes:
            raise ValueError(f"no buffer begins at {base_offset:#x}")
        torch.cuda.set_device(self._card)
        dtype: torch.dtype = getattr(torch, view.dtype)
        whole = self.sizes[base_offset] // dtype.itemsize * dtype.itemsize
        elements = as_tensor(base_offset, whole).view(dtype)
        return elements.as_strided(view.shape, view.strides, view.offset_bytes // dtype.itemsize)

    def queue(self, stream: int) -> AbstractContextManager[object]:
        """While it is entered, torch enqueues on a stream what it does on the card."""
        external: Any = torch.cuda.ExternalStream
        return torch.cuda.stream(external(stream, device=torch.device("cuda", self._card)))


def write(stream: int, address: int, values: torch.Tensor) -> None:
    """Copy a tensor of the host to the card, and wait until it is there."""
    content = values.contiguous().reshape(-1).view(torch.uint8)
    driver.write(stream, address, content.data_ptr(), content.numel())
    driver.synchronise(stream)


def in_order(slot: RunSlot) -> Iterator[int]:
    """Addresses of a slot's allocations: buffers, then scratch."""
    taken: Sequence[int] = (*slot.buffers, *chain.from_iterable(slot.scratch))
    return (address for address in taken if address >= 0)
