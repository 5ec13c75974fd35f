"""The recorder: intercepts every torch operation on the target's tensors and writes the steps of the plan.

Allocations and fills become steps, and so do copies where the policy allows them. Views and shape arithmetic are free.
Everything else is refused with the candidate's line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from workers.protocol import (
    DTYPE_BYTES,
    Allocate,
    Buffer,
    Copy,
    Fill,
    Launch,
    Outcome,
    Plan,
    Pointer,
    Policy,
    Shape,
    View,
)
from workers.protocol.operator import DtypeName
from workers.protocol.plan import MAX_BUFFER_BYTES, MAX_BUFFERS, MAX_STEPS
from workers.tracer.movements import MOVEMENTS
from workers.tracer.operations import (
    FILL_VALUES,
    Args,
    Kwargs,
    Number,
    OperationKind,
    filled,
    is_on_target,
    kind_of,
    name_of,
    refusal,
)
from workers.tracer.refusal import TraceRefused

_ADDRESSES = 0x5EEF
_ADDRESS_BITS = 48
_BUFFER_BITS = 36
# Fake addresses: buffers are 2**36 bytes apart, more than one may have, and fully aligned, at addresses unlike any
# number of a candidate.


@dataclass(frozen=True)
class _Memory:
    """A buffer, the storage that represents it (kept alive, so that its identity is not reused), and its size."""

    id: int
    storage: torch.UntypedStorage
    bytes: int
    input: int | None


@dataclass(frozen=True)
class MadeTensor:
    """A tensor that host code allocated in some call, and how it filled it there.

    Host code may keep such a tensor for later calls, as a dummy or a workspace. Each plan makes it anew.

    Attributes:
        tensor: The tensor as it was allocated.
        fills: Parts of it, and the number that each was filled with, in order.
    """

    tensor: torch.Tensor
    fills: list[tuple[torch.Tensor, Number]] = field(default_factory=list)


MadeTensors = dict[int, MadeTensor]
"""Tensors that the calls of a trace allocated, by their storages; those that host code copied to are left out."""


class PlanRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Recorder of one call of the candidate's entry for one shape. `made` gets the tensors that it allocates."""

    def __init__(self, policy: Policy, inputs: Sequence[torch.Tensor], made: MadeTensors | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._policy = policy
        self._made: MadeTensors = {} if made is None else made
        self._earlier = frozenset(self._made)
        self._memories: dict[int, _Memory] = {}
        self._steps: list[Allocate | Fill | Copy | Launch] = []
        self._constants: dict[int, tuple[torch.Tensor, Number]] = {}
        for index, tensor in enumerate(inputs):
            self._remember(tensor, index)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: True would import all of dynamo at the first operation, two seconds per sandbox."""
        return False

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        """Record, allow or refuse one operation."""
        kwargs = kwargs or {}
        if not is_on_target(args, kwargs):
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return self._handle(func, args, kwargs)

    def _handle(self, func: OpOverload, args: Args, kwargs: Kwargs) -> object:
        kind, name = kind_of(func), name_of(func)
        match kind:
            case OperationKind.ALLOCATION:
                return self._allocate(func(*args, **kwargs))
            case OperationKind.FILLED_ALLOCATION:
                return self._fill(self._allocate(func(*args, **kwargs)), FILL_VALUES[name](args))
            case OperationKind.WRAPPED_NUMBER:
                return self._hold(func(*args, **kwargs), FILL_VALUES[name](args))
            case OperationKind.FILL:
                return self._fill(args[0], FILL_VALUES[name](args))
            case OperationKind.COPY:
                return self._copy(args[1], args[0])
            case OperationKind.CONVERSION:
                return self._convert(func, args, kwargs)
            case OperationKind.MOVEMENT:
                return self._put_together(name, func(*args, **kwargs), args, kwargs)
            case OperationKind.VIEW:
                return self._checked_view(func(*args, **kwargs))
        raise refusal(func)

    def pointer(self, tensor: torch.Tensor) -> Pointer:
        """Return a tensor as a launch argument.

        Raises:
            TraceRefused: If it is not memory of this call.
        """
        view = self.view(tensor)
        extent_bytes = view.end_bytes - view.offset_bytes
        return Pointer(buffer=view.buffer, offset_bytes=view.offset_bytes, extent_bytes=extent_bytes, dtype=view.dtype)

    def view(self, tensor: torch.Tensor) -> View:
        """Return a tensor as part of a buffer.

        Raises:
            TraceRefused: If it is not memory of this call, or plans do not support its dtype.
        """
        with torch._C.DisableTorchFunction():
            return View(
                buffer=self._memory(tensor).id,
                offset_bytes=tensor.storage_offset() * tensor.element_size(),
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                dtype=dtype_name(tensor.dtype),
            )

    def address_of(self, tensor: torch.Tensor) -> int:
        """Return the fake address of a tensor, aligned as the real one will be."""
        with torch._C.DisableTorchFunction():
            offset_bytes = int(tensor.storage_offset()) * tensor.element_size()
            return (_ADDRESSES << _ADDRESS_BITS) + (self._memory(tensor).id << _BUFFER_BITS) + offset_bytes

    def add(self, step: Allocate | Fill | Copy | Launch) -> None:
        """Append a step.

        Raises:
            TraceRefused: If the plan would have too many steps.
        """
        if len(self._steps) >= MAX_STEPS:
            raise TraceRefused(Outcome.PLAN_REJECTED, f"one call takes more than {MAX_STEPS} steps; fuse its kernels")
        self._steps.append(step)

    def input_of(self, tensor: torch.Tensor) -> int | None:
        """Return the index of the input that a tensor shares memory with; None if there is none.

        Raises:
            TraceRefused: If it is not memory of this call.
        """
        with torch._C.DisableTorchFunction():
            return self._memory(tensor).input

    def is_kept(self, tensor: torch.Tensor) -> bool:
        """Return True if an earlier call allocated a tensor."""
        return tensor.untyped_storage()._cdata in self._earlier

    def plan(self, shape: Shape, outputs: Sequence[torch.Tensor]) -> Plan:
        """Return the finished plan.

        Raises:
            TraceRefused: If an output is not memory of this call.
        """
        views = tuple(self.view(tensor) for tensor in outputs)
        memories = sorted(self._memories.values(), key=lambda memory: memory.id)
        return Plan(
            shape=shape,
            buffers=tuple(Buffer(id=memory.id, bytes=memory.bytes, input=memory.input) for memory in memories),
            steps=tuple(self._steps),
            outputs=views,
        )

    def _remember(self, tensor: torch.Tensor, index: int | None) -> _Memory:
        if len(self._memories) >= MAX_BUFFERS:
            raise TraceRefused(Outcome.PLAN_REJECTED, f"one call allocates more than {MAX_BUFFERS} tensors")
        storage = tensor.untyped_storage()
        if storage.nbytes() > MAX_BUFFER_BYTES:
            raise TraceRefused(
                Outcome.PLAN_REJECTED, f"a tensor takes {storage.nbytes()} bytes; the maximum is {MAX_BUFFER_BYTES}"
            )
        memory = _Memory(len(self._memories), storage, storage.nbytes(), index)
        self._memories[storage._cdata] = memory
        return memory

    def _hold(self, tensor: torch.Tensor, value: Number) -> torch.Tensor:
        """Keep a number that torch wraps as a tensor, as in `x[0] = 1.0`; it becomes memory only if it is used."""
        self._constants[tensor.untyped_storage()._cdata] = (tensor, filled(self._number(value), tensor.dtype))
        return tensor

    def _memory(self, tensor: torch.Tensor) -> _Memory:
        storage = tensor.untyped_storage()._cdata if tensor.is_meta else None
        if storage in self._constants:
            constant, number = self._constants.pop(storage)
            self._fill(self._allocate(constant), number)
        memory = self._memories.get(storage) if storage is not None else None
        if memory is None and storage is not None and self.is_kept(tensor) and storage in self._made:
            memory = self._make_again(self._made[storage])
        if memory is None:
            where = "was not allocated in this call" if tensor.is_meta else "lives on the host; pass device=x.device"
            raise TraceRefused(Outcome.PLAN_REJECTED, f"a tensor {where}: allocate on the device, anew in every call")
        return memory

    def _make_again(self, made: MadeTensor) -> _Memory:
        """Allocate a tensor that an earlier call made, and fill it as that call did."""
        memory = self._remember(made.tensor, None)
        self.add(Allocate(buffer=memory.id))
        for part, value in made.fills:
            self._add_fill(part, value)
        return memory

    def _allocate(self, tensor: torch.Tensor) -> torch.Tensor:
        dtype_name(tensor.dtype)
        self.add(Allocate(buffer=self._remember(tensor, None).id))
        self._made[tensor.untyped_storage()._cdata] = MadeTensor(tensor)
        return tensor

    def _fill(self, tensor: torch.Tensor, value: Number | torch.Tensor) -> torch.Tensor:
        number = filled(self._number(value), tensor.dtype)
        self._add_fill(tensor, number)
        if made := self._made.get(tensor.untyped_storage()._cdata):
            made.fills.append((tensor, number))
        return tensor

    def _add_fill(self, tensor: torch.Tensor, value: Number) -> None:
        self.add(Fill(target=self.view(tensor), value=value))

    def _add_copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self.add(Copy(source=self.view(source), target=self.view(target)))

    def _number(self, value: Number | torch.Tensor) -> Number:
        """Return a fill value as a number; it may be a tensor that only wraps one."""
        if isinstance(value, torch.Tensor) and value.is_meta:
            held = self._constants.get(value.untyped_storage()._cdata)
            if held is None:
                raise TraceRefused(
                    Outcome.HOST_READ, "host code fills a tensor with a value of another tensor: do it in a kernel"
                )
            return held[1]
        number = value.item() if isinstance(value, torch.Tensor) else value
        if not isinstance(number, bool | int | float):
            raise TraceRefused(Outcome.FORBIDDEN_OP, f"host code fills with {number}, which is no real number")
        return number

    def _copy(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if source.is_meta and source.untyped_storage()._cdata in self._constants:
            return self._fill_by_copy(target, source)
        if not source.is_meta:
            if source.numel() != 1:
                raise TraceRefused(
                    Outcome.FORBIDDEN_OP, "host code copies host data to the device: compute it in a kernel"
                )
            return self._fill_by_copy(target, source)
        _require_copies(self._policy, "copies a tensor")
        self._move(source, target)
        return target

    def _put_together(self, name: str, result: torch.Tensor, args: Args, kwargs: Kwargs) -> torch.Tensor:
        _require_copies(self._policy, f"moves the contents of tensors ({name})")
        self._allocate(result)
        for source, target in MOVEMENTS[name](result, *args, **kwargs):
            (self._move(source, target) if isinstance(source, torch.Tensor) else self._fill(target, source))
        return result

    def _move(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy a tensor into all of another one, which may be larger where the first has one element."""
        self._add_copy(source.expand(target.shape), target)
        self._made.pop(target.untyped_storage()._cdata, None)

    def _fill_by_copy(self, target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """Fill with the one number of a tensor. Another dtype is cast, which wraps where a fill would be refused."""
        if source.dtype == target.dtype:
            return self._fill(target, source)
        held = torch.full((), self._number(source), dtype=source.dtype, device="cpu")
        return self._fill(target, held.to(target.dtype))

    def _convert(self, func: OpOverload, args: Args, kwargs: Kwargs) -> torch.Tensor:
        device = kwargs.get("device")
        if device is not None and device.type != "meta":
            raise TraceRefused(
                Outcome.HOST_READ,
                "host code moves a tensor to the host, where it has no values while tracing: work on it in a kernel",
            )
        _require_copies(self._policy, "copies a tensor (clone, contiguous, reshape or a change of dtype)")
        result: torch.Tensor = func(*args, **kwargs)
        self._allocate(result)
        self._move(args[0], result)
        return result

    def _checked_view(self, result: object) -> object:
        """Refuse views that exceed their memory; torch lets storages without data grow."""
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in self._constants:
                memory = self._memory(tensor)
                tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
                if self.view(tensor).end_bytes > memory.bytes:
                    raise TraceRefused(Outcome.PLAN_REJECTED, f"a view exceeds the {memory.bytes} bytes of its memory")
        return result


def _require_copies(policy: Policy, what: str) -> None:
    if policy.host != "copy":
        raise TraceRefused(
            Outcome.FORBIDDEN_OP,
            f"host code {what}: use strides and casts inside the kernel (the operator's policy allows no copies)",
        )


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the host without elements as one of the device: Triton passes a null pointer for it."""
    with torch._C.DisableTorchFunction():
        if tensor.is_meta or tensor.numel():
            return tensor
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def is_address(number: int) -> bool:
    """Return True if a number can only be a fake address."""
    return number >> _ADDRESS_BITS == _ADDRESSES


def dtype_name(dtype: torch.dtype) -> DtypeName:
    """Return a dtype's name in plans.

    Raises:
        TraceRefused: If plans do not support it.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise TraceRefused(Outcome.FORBIDDEN_OP, f"host code uses dtype {name}; there are {', '.join(DTYPE_BYTES)}")
    return cast(DtypeName, name)
