"""Remarks: dangers of a kernel that its verdict in the interpreter does not cover, because only a card shows them.

Two are noticed. A program may load what another of its lanes stored without a barrier between the two: here an
instruction ends for all lanes before the next one begins. And 32-bit offsets may reach 2^31 at a shape that is too
large to be executed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workers.interpreter.faults import Array
from workers.interpreter.formats import TensorValue, format_of
from workers.interpreter.memory import DeviceMemory
from workers.protocol import DTYPE_BYTES, Launch, Plan
from workers.protocol.report import MOST_REMARKS

KEPT = 8
"""Number of stores of one program that loads are compared with; the latest count."""
PROGRAMS = 4
"""Number of programs of a group that are compared: they run the same code."""
ELEMENTS = 2**16
"""Maximum elements of a program's store that is compared."""
FAR = 0.5
"""Share of a buffer's elements that 32-bit offsets reach at a small shape, beyond which they reach them at all."""
_MOST_INT32 = 2**31 - 1


@dataclass
class _Store:
    """Addresses of some programs that a store wrote, (P, elements); -1 where it is masked."""

    address: Array
    low: int
    high: int


@dataclass
class Remarks:
    """Notes of one interpretation.

    Attributes:
        found: The remarks so far, without repetitions.
    """

    found: dict[str, None] = field(default_factory=dict)
    _function: str = ""
    _stores: list[_Store] = field(default_factory=list)
    _pointers: dict[int, tuple[str, int]] = field(default_factory=dict)
    _reached: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)

    def launch(self, step: Launch, memory: DeviceMemory) -> None:
        """Begin a launch."""
        self._function = step.function
        self._pointers = {}
        for name, given in zip(step.parameters, step.arguments, strict=False):
            if given.kind == "pointer":
                self._pointers[memory.address(given.buffer, given.offset_bytes)] = (name, given.extent_bytes)

    def begin(self) -> None:
        """Begin a group of programs, or go past a barrier."""
        self._stores.clear()

    def store(self, address: Array, mask: Array | None) -> None:
        """Note a store."""
        if len(self.found) < MOST_REMARKS and address[0, 0].size <= ELEMENTS:
            written = _of_first_programs(address, mask)
            held = written[written >= 0]
            if held.size:
                self._stores = [*self._stores[1 - KEPT :], _Store(written, int(held.min()), int(held.max()))]

    def load(self, address: Array, mask: Array | None) -> None:
        """Compare a load with the stores before it. A lane may load what it stored itself."""
        if not self._stores or address[0, 0].size > ELEMENTS:
            return
        low, high = int(address[0].min()), int(address[0].max())
        near = [store for store in self._stores if store.low <= high and low <= store.high]
        if near and any(_meets_another_lane(_of_first_programs(address, mask), store.address) for store in near):
            self.found[
                f"{self._function} loads what other lanes of the same program stored: a card does so in any order "
                "unless tl.debug_barrier() stands between the two"
            ] = None

    def offset(self, pointer: TensorValue, offset: TensorValue) -> None:
        """Note the largest 32-bit offset into a pointer argument, beside its elements."""
        if pointer.data.size != 1 or offset.data.dtype != np.int32:
            return
        name, extent_bytes = self._pointers.get(int(pointer.data.reshape(-1)[0]), ("", 0))
        elements = extent_bytes // format_of(pointer.dtype.scalar.element_ty).stored.itemsize
        key = (self._function, name)
        known, share = self._reached.get(key, (0, 0.0))
        if name and elements >= known:
            reach = float(np.abs(offset.data.astype(np.int64)).max()) / max(1, elements)
            self._reached[key] = (elements, max(reach, share if elements == known else 0.0))

    def conclude(self, plans: Sequence[Plan]) -> tuple[str, ...]:
        """Return all remarks.

        Args:
            plans: Plans that were not executed.
        """
        for plan in plans:
            for step in plan.launches:
                for name, given in zip(step.parameters, step.arguments, strict=False):
                    _, share = self._reached.get((step.function, name), (0, 0.0))
                    if (
                        share > FAR
                        and given.kind == "pointer"
                        and given.extent_bytes > _MOST_INT32 * DTYPE_BYTES[given.dtype]
                    ):
                        self.found[
                            f"{step.function} adds 32-bit offsets to '{name}', which has more than 2^31 elements at "
                            f"{plan.shape.key}, a shape that was not executed: cast a factor to tl.int64"
                        ] = None
        return tuple(self.found)[:MOST_REMARKS]


def _of_first_programs(address: Array, mask: Array | None) -> Array:
    """Return the addresses of a few programs of the first draw, (P, elements); -1 where they are masked."""
    if mask is not None:
        address, mask = np.broadcast_arrays(address, mask)
        address = np.where(mask, address, -1)
    return address[0, :PROGRAMS].reshape(min(address.shape[1], PROGRAMS), -1)


def _meets_another_lane(loaded: Array, stored: Array) -> bool:
    """Return True if a program loads an address that it stored, unless each lane loads what it stored.

    One lane of a block stores a scalar, and all lanes load it.
    """
    if loaded.shape == stored.shape and loaded.shape[1] > 1 and bool(((loaded == stored) | (loaded < 0)).all()):
        return False
    programs = range(max(len(loaded), len(stored)))
    rows = ((loaded[min(at, len(loaded) - 1)], stored[min(at, len(stored) - 1)]) for at in programs)
    return any(bool(np.isin(one[one >= 0], other[other >= 0]).any()) for one, other in rows)
