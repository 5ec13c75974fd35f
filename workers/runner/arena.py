"""The arena: one large piece of a card's memory that runs have their slots in, seen as tensors, shared by handle."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch

from workers import driver
from workers.protocol import View

ALIGNMENT = 256
"""An arena is a multiple of this many bytes, so that all of it can be seen in every dtype."""


class PlanMemory(Protocol):
    """What plans run on: addresses from `pointer` on, and views of what lies there."""

    @property
    def pointer(self) -> int:
        """Address from which offsets count."""

    @property
    def bytes(self) -> int:
        """Where offsets end."""

    def view(self, view: View, base_offset: int) -> torch.Tensor:
        """A plan's view in a buffer that starts at byte `base_offset`."""

    def queue(self, stream: int) -> AbstractContextManager[object]:
        """While it is entered, torch enqueues on a stream what it does on the card."""


class Arena:
    """A piece of memory, on the card that is open in this thread.

    Attributes:
        pointer: Its address in this process.
        bytes: Its size.
        device: Where it is.
        handle: By what another process opens it; empty if it is another process's itself.
    """

    def __init__(self, memory: torch.Tensor, release: Callable[[], None], handle: bytes = b"") -> None:
        """Wrap memory; `allocate` and `open` are how to come by it on a card.

        Args:
            memory: (bytes,) uint8.
            release: Gives it back.
            handle: By what another process opens it.
        """
        self.pointer = memory.data_ptr()
        self.bytes = memory.numel()
        self.device = memory.device
        self.handle = handle
        self._release = release
        self._memory: torch.Tensor | None = memory
        self._typed: dict[str, torch.Tensor] = {}

    @classmethod
    def allocate(cls, size: int) -> "Arena":
        """A new one, of `size` bytes or a few more.

        Raises:
            DriverError: If the card has not enough memory.
        """
        size = -(-size // ALIGNMENT) * ALIGNMENT
        pointer = driver.allocate(size)
        return cls(as_tensor(pointer, size), partial(driver.free, pointer), driver.export_memory(pointer))

    @classmethod
    def open(cls, handle: bytes, size: int) -> "Arena":
        """Another process's, by its handle and size in bytes.

        Raises:
            DriverError: If it cannot be opened, as when that process has ended.
        """
        pointer = driver.import_memory(handle)
        return cls(as_tensor(pointer, size), partial(driver.close_memory, pointer))

    def tensor(self, offset: int, size: int) -> torch.Tensor:
        """Bytes of it, (size,) uint8.

        Raises:
            ValueError: If they do not lie in it, or it is closed.
        """
        self.address(offset, size)
        return self._opened()[offset : offset + size]

    def address(self, offset: int, size: int) -> int:
        """Where so many bytes lie that begin at a byte of it.

        Raises:
            ValueError: If they do not lie in it.
        """
        if offset < 0 or size < 0 or offset + size > self.bytes:
            raise ValueError(f"{size} bytes from {offset} on do not lie in an arena of {self.bytes}")
        return self.pointer + offset

    def view(self, view: View, base_offset: int) -> torch.Tensor:
        """A plan's view in a buffer that starts at byte `base_offset`.

        Raises:
            ValueError: If it does not lie in the arena, or not where an element may begin, or the arena is closed.
        """
        return self.views(view, [base_offset])[0]

    def views(self, view: View, base_offsets: Sequence[int]) -> list[torch.Tensor]:
        """A plan's view in each of several buffers.

        Raises:
            ValueError: If one does not lie in the arena, or not where an element may begin, or the arena is closed.
        """
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
        """While it is entered, torch enqueues on a stream what it does on the card."""
        if self.device.type == "cpu":
            return nullcontext()
        external: Any = torch.cuda.ExternalStream
        return torch.cuda.stream(external(stream, device=self.device))

    def close(self) -> None:
        """Give the memory back, or let go of it. No tensor on it may be used any more. Idempotent."""
        if self._memory is not None:
            self._memory = None
            self._typed.clear()
            self._release()

    def _opened(self) -> torch.Tensor:
        if self._memory is None:
            raise ValueError("the arena is closed")
        return self._memory


class _Memory:
    """Memory as torch takes it without a copy (CUDA array interface, version 3)."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def free_idle(device: torch.device, beyond: int = 0) -> None:
    """Give memory of a card back that torch keeps and nothing uses, if it is more than `beyond` bytes."""
    if device.type == "cuda":
        # Flattened, as torch has them by single figures, they take 0.3 ms.
        held = torch.cuda.memory_stats_as_nested_dict(device)
        if held and _current(held, "reserved_bytes") - _current(held, "allocated_bytes") > beyond:
            torch.cuda.empty_cache()


def _current(held: dict[str, Any], what: str) -> int:
    return int(held[what]["all"]["current"])


def as_tensor(pointer: int, size: int) -> torch.Tensor:
    """Memory of the card as (size,) uint8, without a copy; it belongs to whoever allocated it."""
    return torch.as_tensor(_Memory(pointer, size), device="cuda")
