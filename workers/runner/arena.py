"""The arena: one large block of a card's memory that holds all slots, seen as tensors, shared by handle."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch

from workers import driver
from workers.protocol import View

ALIGNMENT = 256
"""Divisor of an arena's bytes, so that all of it can be seen in every dtype."""


class PlanMemory(Protocol):
    """Memory that plans run on: addresses from `pointer` on, and views of their content."""

    @property
    def pointer(self) -> int:
        """Address from which offsets count."""

    @property
    def bytes(self) -> int:
        """End of the offsets."""

    def view(self, view: View, base_offset: int) -> torch.Tensor:
        """Return a plan's view in a buffer that starts at byte `base_offset`."""

    def queue(self, stream: int) -> AbstractContextManager[object]:
        """Have torch enqueue its work on the card on a stream while the context is entered."""


class Arena:
    """A block of memory on the card that is open in this thread.

    Access outside it, misaligned, or after `close` raises `ValueError`.

    Attributes:
        pointer: Its address in this process.
        bytes: Its size.
        device: Its device.
        handle: Handle by which another process opens it; empty if the memory belongs to another process.
    """

    def __init__(self, memory: torch.Tensor, release: Callable[[], None], handle: bytes = b"") -> None:
        """Wrap (bytes,) uint8 memory with a function that releases it; `allocate` and `open` provide it on a card."""
        self.pointer = memory.data_ptr()
        self.bytes = memory.numel()
        self.device = memory.device
        self.handle = handle
        self._release = release
        self._memory: torch.Tensor | None = memory
        self._typed: dict[str, torch.Tensor] = {}

    @classmethod
    def allocate(cls, size: int) -> "Arena":
        """Allocate a new arena of `size` bytes or a few more.

        Raises:
            DriverError: If the card has not enough memory.
        """
        size = -(-size // ALIGNMENT) * ALIGNMENT
        pointer = driver.allocate(size)
        return cls(as_tensor(pointer, size), partial(driver.free, pointer), driver.export_memory(pointer))

    @classmethod
    def open(cls, handle: bytes, size: int) -> "Arena":
        """Open another process's arena, by its handle and size in bytes.

        Raises:
            DriverError: If it cannot be opened, for instance because that process has ended.
        """
        pointer = driver.import_memory(handle)
        return cls(as_tensor(pointer, size), partial(driver.close_memory, pointer))

    def tensor(self, offset: int, size: int) -> torch.Tensor:
        """Return bytes of the arena, (size,) uint8."""
        self.address(offset, size)
        return self._opened()[offset : offset + size]

    def address(self, offset: int, size: int) -> int:
        """Return the address of a range of the arena."""
        if offset < 0 or size < 0 or offset + size > self.bytes:
            raise ValueError(f"{size} bytes from {offset} on do not lie in an arena of {self.bytes}")
        return self.pointer + offset

    def view(self, view: View, base_offset: int) -> torch.Tensor:
        """Return a plan's view in a buffer that starts at byte `base_offset`."""
        return self.views(view, [base_offset])[0]

    def views(self, view: View, base_offsets: Sequence[int]) -> list[torch.Tensor]:
        """Return a plan's view in each of several buffers."""
        dtype: torch.dtype = getattr(torch, view.dtype)
        start, end, size = view.offset_bytes, view.end_bytes, dtype.itemsize
        for base in base_offsets:
            if base < 0 or base + end > self.bytes or (base + start) % size:
                raise ValueError(f"a {view.dtype} view cannot lie at byte {base + start} of an arena of {self.bytes}")
        memory = self._opened()
        if view.dtype not in self._typed:
            self._typed[view.dtype] = memory.view(dtype)
        typed = self._typed[view.dtype]
        return [typed.as_strided(view.shape, view.strides, (base + start) // size) for base in base_offsets]

    def queue(self, stream: int) -> AbstractContextManager[object]:
        """Have torch enqueue its work on the card on a stream while the context is entered."""
        if self.device.type == "cpu":
            return nullcontext()
        external: Any = torch.cuda.ExternalStream
        return torch.cuda.stream(external(stream, device=self.device))

    def close(self) -> None:
        """Release the memory. No tensor on it may be used any more. Idempotent."""
        if self._memory is not None:
            self._memory = None
            self._typed.clear()
            self._release()

    def _opened(self) -> torch.Tensor:
        if self._memory is None:
            raise ValueError("the arena is closed")
        return self._memory


class _Memory:
    """Memory in the form that torch takes without a copy (CUDA array interface, version 3)."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def free_idle(device: torch.device, beyond: int = 0) -> None:
    """Release a card's memory that torch keeps unused, if it is more than `beyond` bytes."""
    if device.type == "cuda":
        # The nested form avoids torch's flattening of all figures, which takes 0.3 ms.
        held = torch.cuda.memory_stats_as_nested_dict(device)
        if held and _current(held, "reserved_bytes") - _current(held, "allocated_bytes") > beyond:
            torch.cuda.empty_cache()


def _current(held: dict[str, Any], what: str) -> int:
    return int(held[what]["all"]["current"])


def as_tensor(pointer: int, size: int) -> torch.Tensor:
    """Return memory of the card as (size,) uint8, without a copy; its owner remains responsible for it."""
    return torch.as_tensor(_Memory(pointer, size), device="cuda")
