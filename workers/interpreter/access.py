"""Memory instructions of the builder: loads, stores, block pointers, tensor descriptors and atomics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np
from triton import language as tl

from workers.interpreter.faults import Array, NotInterpretable
from workers.interpreter.formats import TensorValue, TritonType, encode, format_of, round_to
from workers.interpreter.hints import WIDEST_BYTES, apply, misread, require_access, require_true, spoilt
from workers.interpreter.memory import DeviceMemory, LaneGroup
from workers.interpreter.remarks import Remarks
from workers.interpreter.sampling import LoopSample
from workers.interpreter.undefined import UndefinedValues

BULK_BYTES = 16
"""Alignment in bytes of a tensor descriptor's address and strides, from CUDA's `cuTensorMapEncodeTiled`."""


@dataclass(frozen=True)
class BlockPointer:
    """A window into a strided tensor: a `tl.make_block_ptr`, or a tensor descriptor with an offset.

    Sizes, strides and offsets are in elements, one scalar per dimension.
    """

    base: TensorValue
    sizes: tuple[Array, ...]
    strides: tuple[Array, ...]
    offsets: tuple[Array, ...]
    block: tuple[int, ...]

    def place(self, checked: Sequence[int]) -> tuple[TensorValue, TensorValue]:
        """Return the addresses of the block's elements and a mask of those inside along the `checked` dimensions."""
        element = self.base.dtype.element_ty
        rank = len(self.block)
        address = _raise(self.base.data, rank)
        inside: Array = np.ones((1, 1, *self.block), dtype=bool)
        for axis in range(rank):
            steps = np.arange(self.block[axis], dtype=np.int64).reshape((-1,) + (1,) * (rank - 1 - axis))
            index = _raise(self.offsets[axis].astype(np.int64), rank) + steps
            address = address + index * _raise(self.strides[axis], rank) * format_of(element).stored.itemsize
            if axis in checked:
                inside = inside & (index >= 0) & (index < _raise(self.sizes[axis], rank))
        return TensorValue(address, self.base.dtype), TensorValue(inside, tl.int1)


@dataclass(frozen=True)
class BlockDescriptor:
    """Result of `tl.make_tensor_descriptor`: a tensor whose blocks are read and written by offset."""

    base: TensorValue
    sizes: tuple[Array, ...]
    strides: tuple[Array, ...]
    block: tuple[int, ...]
    padding: object

    def at(self, offsets: Sequence[TensorValue]) -> BlockPointer:
        """Return the block at an offset in elements."""
        return BlockPointer(self.base, self.sizes, self.strides, _arrays(offsets), self.block)


def _arrays(values: Sequence[TensorValue]) -> tuple[Array, ...]:
    require_true(values)
    return tuple(value.data for value in values)


def _raise(data: Array, rank: int) -> Array:
    """Give a scalar the axes of a block."""
    return data.reshape(data.shape[:2] + (1,) * rank)


def _pad(padding: object, element: TritonType) -> Array | None:
    """Return the value of elements outside a tensor; None is zero."""
    if padding is not None and str(padding).endswith("NAN"):
        return np.full((1, 1), np.nan, dtype=format_of(element).held)
    return None


def _require_aligned(what: str, data: Array) -> None:
    stray = data % BULK_BYTES != 0
    if stray.any():
        shown = f" of {data[stray].reshape(-1)[0]} bytes" if what == "stride" else ""
        raise NotInterpretable(
            f"a tensor descriptor has a {what}{shown} that is no multiple of {BULK_BYTES} bytes, as the hardware "
            "requires; use pointers and masks where rows are not aligned"
        )


def _exchange(found: Array, operand: Array) -> Array:
    return operand


def _compare_and_swap(dtype: TritonType, found: Array, expected: Array, operand: Array) -> Array:
    """Compare bits: a negative zero differs from zero, and a NaN may equal a NaN."""
    bits, wanted = (encode(values, dtype).view(f"u{format_of(dtype).stored.itemsize}") for values in (found, expected))
    return np.where(bits == wanted, operand, found)


UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add, "FADD": np.add, "MAX": np.maximum, "UMAX": np.maximum, "MIN": np.minimum, "UMIN": np.minimum,
    "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor, "XCHG": _exchange,
}  # fmt: skip
"""Functions from the stored value and the operand of an atomic instruction to the value that it writes."""


class MemoryAccess:
    """The part of the builder that accesses memory.

    Attributes:
        memory: The plan's buffers.
        lanes: The lanes that run now.
        grid: Programs along the three axes of the launch.
        widest: Maximum number of elements that a lane has loaded or stored at once.
        loop_sample: Chooses representative loop iterations when only the traffic matters; None if all are executed.
        patience: Remaining iterations of `while` for the lanes.
        bulk: True if the target has special units that move descriptors' blocks.
        widest_bytes: Maximum number of bytes that the kernel's machine code loads or stores at once.
        chance: Draws undefined values.
        note: What else may explain wrong results; empty if nothing does.
        remarks: Notes dangers that the verdict does not cover.
    """

    memory: DeviceMemory
    lanes: LaneGroup
    grid: tuple[int, int, int]
    chance: UndefinedValues

    def __init__(self) -> None:
        self.widest = 1
        self.loop_sample: LoopSample | None = None
        self.patience = inf
        self.bulk = False
        self.widest_bytes = WIDEST_BYTES
        self.note = ""
        self.remarks = Remarks()

    # Cache hints change no value. Triton passes two of them up to 3.8, and one that has both from 3.9 on.

    def create_load(self, pointer: TensorValue, *hints: object) -> TensorValue:
        """Load all elements."""
        return self._load(pointer, None, None)

    def create_masked_load(
        self, pointer: TensorValue, mask: TensorValue, other: TensorValue | None, *hints: object
    ) -> TensorValue:
        """Load where the mask is set; elsewhere the result is `other`, or zero."""
        return self._load(pointer, mask, None if other is None else other.data)

    def create_store(self, pointer: TensorValue, value: TensorValue, *hints: object) -> None:
        """Store all elements."""
        self._store(pointer, value, None)

    def create_masked_store(self, pointer: TensorValue, value: TensorValue, mask: TensorValue, *hints: object) -> None:
        """Store where the mask is set."""
        self._store(pointer, value, mask)

    def get_cache_policy(self, modifier: object, eviction: object) -> None:
        """Return the hints of an access, of which none is kept."""

    def _load(self, pointer: TensorValue, mask: TensorValue | None, other: Array | None) -> TensorValue:
        element = pointer.dtype.scalar.element_ty
        self.widest = max(self.widest, pointer.data[0, 0].size)
        missed = misread(pointer, mask, self.widest_bytes)
        self.remarks.load(pointer.data, None if mask is None else mask.data)
        data = self.memory.load(pointer.data, None if mask is None else mask.data, element, self.lanes)
        if missed is not None:
            data = np.where(missed, spoilt(data), data)
            self.note = "a result may depend on elements that compiled code reads elsewhere because of a false hint"
        if mask is not None and other is not None:
            data = np.where(mask.data, data, _raise(other, data.ndim - 2) if other.ndim == 2 else other)
        return TensorValue(data, element)

    def _store(self, pointer: TensorValue, value: TensorValue, mask: TensorValue | None) -> None:
        element = pointer.dtype.scalar.element_ty
        self.widest = max(self.widest, pointer.data[0, 0].size)
        require_access(pointer, mask, self.widest_bytes)
        self.remarks.store(pointer.data, None if mask is None else mask.data)
        data = self.chance.settle_nan(value.data, self.lanes.draws)
        self.memory.store(pointer.data, data, None if mask is None else mask.data, element, self.lanes)

    def create_addptr(self, pointer: TensorValue, offset: TensorValue) -> TensorValue:
        """Advance a pointer by elements."""
        size = format_of(pointer.dtype.scalar.element_ty).stored.itemsize
        self.remarks.offset(pointer, offset)
        return apply(lambda base, steps: base + steps.astype(np.int64) * size, pointer.dtype, pointer, offset)

    # Block pointers and descriptors.

    def create_make_block_ptr(
        self,
        base: TensorValue,
        sizes: Sequence[TensorValue],
        strides: Sequence[TensorValue],
        offsets: Sequence[TensorValue],
        block: Sequence[int],
        order: Sequence[int],
    ) -> BlockPointer:
        """`tl.make_block_ptr`."""
        require_true([base])
        return BlockPointer(base, _arrays(sizes), _arrays(strides), _arrays(offsets), tuple(block))

    def create_advance(self, pointer: BlockPointer, steps: Sequence[TensorValue]) -> BlockPointer:
        """`tl.advance`."""
        offsets = tuple(offset + step for offset, step in zip(pointer.offsets, _arrays(steps), strict=True))
        return BlockPointer(pointer.base, pointer.sizes, pointer.strides, offsets, pointer.block)

    def create_tensor_pointer_load(
        self,
        pointer: BlockPointer,
        checked: Sequence[int],
        padding: object,
        cache: object,
        eviction: object,
        volatile: bool,
    ) -> TensorValue:
        """Load a block pointer's block."""
        address, inside = pointer.place(checked)
        return self._load(address, inside if checked else None, _pad(padding, address.dtype.element_ty))

    def create_tensor_pointer_store(
        self, pointer: BlockPointer, value: TensorValue, checked: Sequence[int], cache: object, eviction: object
    ) -> None:
        """Store a block pointer's block."""
        address, inside = pointer.place(checked)
        self._store(address, value, inside if checked else None)

    def create_make_tensor_descriptor(
        self,
        base: TensorValue,
        sizes: Sequence[TensorValue],
        strides: Sequence[TensorValue],
        block: Sequence[int],
        signed: bool,
        padding: object,
    ) -> BlockDescriptor:
        """`tl.make_tensor_descriptor`.

        Raises:
            NotInterpretable: If the target's units cannot move its blocks: addresses and strides must be multiples of
                16 bytes.
        """
        require_true([base])
        if self.bulk:
            size = format_of(base.dtype.element_ty).stored.itemsize
            for what, data in (
                ("base", base.data),
                *(("stride", s.data.astype(np.int64) * size) for s in strides[:-1]),
            ):
                _require_aligned(what, data)
        return BlockDescriptor(base, _arrays(sizes), _arrays(strides), tuple(block), padding)

    def create_descriptor_load(
        self, descriptor: BlockDescriptor, offsets: Sequence[TensorValue], *hints: object
    ) -> TensorValue:
        """Load a block, with the descriptor's padding outside the tensor."""
        address, inside = descriptor.at(offsets).place(range(len(descriptor.block)))
        return self._load(address, inside, _pad(descriptor.padding, address.dtype.element_ty))

    def create_descriptor_store(
        self, descriptor: BlockDescriptor, value: TensorValue, offsets: Sequence[TensorValue]
    ) -> None:
        """Store a block; elements outside the tensor are dropped."""
        address, inside = descriptor.at(offsets).place(range(len(descriptor.block)))
        self._store(address, value, inside)

    def create_descriptor_reduce(
        self, kind: object, descriptor: BlockDescriptor, value: TensorValue, offsets: Sequence[TensorValue]
    ) -> None:
        """Atomically combine a block with the stored one; elements outside the tensor are dropped."""
        address, inside = descriptor.at(offsets).place(range(len(descriptor.block)))
        self.create_atomic_rmw(kind, address, value, inside, None, None)

    # Atomics.

    def create_atomic_rmw(
        self, kind: object, pointer: TensorValue, value: TensorValue, mask: TensorValue, order: object, scope: object
    ) -> TensorValue:
        """Read, modify, write, one lane after another. Returns the value that each lane found.

        Raises:
            NotInterpretable: If `UPDATES` lacks the kind of update.
        """
        name = str(kind).rpartition(".")[2]
        if name not in UPDATES:
            raise NotInterpretable(f"the interpreter does not know the atomic {name}")
        require_access(pointer, mask, self.widest_bytes)
        return self._update(pointer, (value.data,), mask.data, UPDATES[name])

    def create_atomic_cas(
        self, pointer: TensorValue, expected: TensorValue, value: TensorValue, order: object, scope: object
    ) -> TensorValue:
        """Write where the expected value is found. Returns the value that each lane found."""
        swap = partial(_compare_and_swap, pointer.dtype.scalar.element_ty)
        return self._update(pointer, (expected.data, value.data), None, swap)

    def _update(
        self, pointer: TensorValue, operands: tuple[Array, ...], mask: Array | None, function: Callable[..., Array]
    ) -> TensorValue:
        element = pointer.dtype.scalar.element_ty

        def rounded(*values: Array) -> Array:
            return round_to(function(*values), element)

        operands = tuple(self.chance.settle_nan(operand, self.lanes.draws) for operand in operands)
        data = self.memory.update(pointer.data, operands, mask, element, self.lanes, rounded)
        return TensorValue(data, element)
