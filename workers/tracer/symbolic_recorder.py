"""The symbolic recorder: writes the steps of a call with symbolic sizes, with formulas in place of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.jit import JITCallable, JITFunction, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from workers.protocol import Allocate, Copy, Fill, Launch, Outcome, Policy
from workers.protocol.formula import Term, combine
from workers.protocol.plan import MAX_STEPS, NumberType, spread
from workers.protocol.symbolic import (
    SymbolicBuffer,
    SymbolicCopy,
    SymbolicDescriptor,
    SymbolicFill,
    SymbolicLaunch,
    SymbolicNumber,
    SymbolicPlan,
    SymbolicPointer,
    SymbolicStep,
    SymbolicView,
)
from workers.tracer.operations import Number
from workers.tracer.recorder import PlanRecorder, dtype_name
from workers.tracer.refusal import TraceRefused, running_line
from workers.tracer.sizes import SizeLog, plain, term_of, value_of

DESCRIPTORS = (TensorDescriptor, GluonDescriptor)
"""Classes of tensor descriptors that host code makes."""
_ALIGNED_BYTES = 16
# Triton compiles another kernel for a pointer that this does not divide.
_INT32, _INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)


class LaunchNames(Protocol):
    """The part of the launch interceptor that describes arguments."""

    def constant(self, name: str, value: object) -> bool | int | float | str | None:
        """Return a compile-time value as data."""

    def name_of(self, function: JITCallable) -> str:
        """Return the global name of a jit function."""


class SymbolicRecorder(PlanRecorder):  # type: ignore[no-untyped-call]
    """Recorder of one call of the candidate's entry with symbolic sizes."""

    def __init__(self, policy: Policy, inputs: Sequence[torch.Tensor], log: SizeLog) -> None:
        super().__init__(policy, inputs)
        self._log = log
        self._written: list[SymbolicStep] = []

    def add(self, step: Allocate | Fill | Copy | Launch | SymbolicStep) -> None:
        """Append a step.

        Raises:
            TraceRefused: If the plan would have too many steps.
        """
        if len(self._written) >= MAX_STEPS:
            raise TraceRefused(Outcome.PLAN_REJECTED, f"one call takes more than {MAX_STEPS} steps; fuse its kernels")
        assert not isinstance(step, Fill | Copy | Launch)
        self._written.append(step)

    def symbolic_plan(self, outputs: Sequence[torch.Tensor]) -> SymbolicPlan:
        """Return the finished plan, with the guards that its trace needed.

        Raises:
            TraceRefused: If an output is not memory of this call.
        """
        views = tuple(self.symbolic_view(tensor) for tensor in outputs)
        memories = sorted(self._memories.values(), key=lambda memory: memory.id)
        return SymbolicPlan(
            cases=(tuple(self._log.guards),),
            buffers=tuple(
                SymbolicBuffer(id=memory.id, bytes=term_of(memory.bytes), input=memory.input) for memory in memories
            ),
            steps=tuple(self._written),
            outputs=views,
        )

    def symbolic_view(self, tensor: torch.Tensor) -> SymbolicView:
        """Return a tensor as part of a buffer.

        Raises:
            TraceRefused: If it is not memory of this call, or plans do not support its dtype.
        """
        with torch._C.DisableTorchFunction():
            return SymbolicView(
                buffer=self._memory(tensor).id,
                offset_bytes=term_of(tensor.storage_offset() * tensor.element_size()),
                shape=tuple(map(term_of, tensor.shape)),
                strides=tuple(map(term_of, tensor.stride())),
                dtype=dtype_name(tensor.dtype),
            )

    def launch(
        self,
        function: JITFunction,
        grid: Sequence[object],
        arguments: Mapping[str, object],
        options: Mapping[str, int | None],
        names: LaunchNames,
    ) -> None:
        """Append a launch, unless its grid is empty at these sizes."""
        if any(size == 0 for size in grid):
            return
        x, y, z = (term_of(_counted(size)) for size in grid)
        taken = {param.name: param for param in function.params}
        constants = {
            part: names.constant(part, plain(value))
            for name, whole in arguments.items()
            for part, value in spread(name, whole)
            if taken[name].is_constexpr or value is None
        }
        given = {
            part: self._argument(part, value, taken[name].annotation_type if part == name else "")
            for name, whole in arguments.items()
            for part, value in spread(name, whole)
            if part not in constants
        }
        step = SymbolicLaunch(
            grid=(x, y, z),
            arguments=tuple(given.values()),
            function=names.name_of(function),
            parameters=tuple(given),
            constants=constants,
            options=options,
            line=running_line(),
        )
        self.add(step)

    def _argument(
        self, name: str, value: object, annotated: str
    ) -> SymbolicPointer | SymbolicNumber | SymbolicDescriptor:
        if isinstance(value, torch.Tensor):
            return self._pointer(value)
        if isinstance(value, DESCRIPTORS):
            return self._descriptor(value)
        if isinstance(value, TensorWrapper):
            raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, f"argument '{name}' is a reinterpreted tensor")
        if not isinstance(value, bool | int | float | torch.SymInt | torch.SymFloat):
            reason = f"argument '{name}' is a {type(value).__name__}, which symbolic plans do not support"
            raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, reason)
        return SymbolicNumber.model_validate({"type": annotated or self._type(value), "value": term_of(value)})

    def _pointer(self, tensor: torch.Tensor) -> SymbolicPointer:
        view = self.symbolic_view(tensor)
        self._keep(combine("%", view.offset_bytes, _ALIGNED_BYTES))
        return SymbolicPointer(
            buffer=view.buffer,
            offset_bytes=view.offset_bytes,
            extent_bytes=combine("-", view.end_bytes, view.offset_bytes),
            dtype=view.dtype,
        )

    def _descriptor(self, descriptor: TensorDescriptor | GluonDescriptor) -> SymbolicDescriptor:
        """Return a descriptor, with guards of what the copy engine asks: its address, sizes and strides."""
        view = self.symbolic_view(descriptor.base)
        item_bytes = descriptor.base.element_size()
        self._keep(combine("%", view.offset_bytes, _ALIGNED_BYTES))
        shape, strides = (tuple(map(term_of, part)) for part in (descriptor.shape, descriptor.strides))
        self._keep(strides[-1])
        for stride in strides[:-1]:
            self._keep(combine("%", combine("*", stride, item_bytes), _ALIGNED_BYTES))
        for size in shape:
            self._log.require(combine(">=", size, 1))
            self._log.require(combine("<", size, _INT32[1] + 1))
        tf32 = getattr(descriptor, "round_f32_to_tf32", None)  # Triton 3.6 does not have it.
        return SymbolicDescriptor(
            buffer=view.buffer,
            offset_bytes=view.offset_bytes,
            dtype=view.dtype,
            shape=shape,
            strides=strides,
            block=tuple(int(size) for size in descriptor.block_shape),
            nan_fill=descriptor.padding == "nan",
            tf32=None if tf32 is None else bool(tf32),
            layout=repr(descriptor.layout) if isinstance(descriptor, GluonDescriptor) else None,
        )

    def _type(self, value: Number | torch.SymInt | torch.SymFloat) -> NumberType:
        """Return Triton's type for a number, with guards of its range."""
        number = value_of(value)
        if isinstance(number, bool):
            return "u1"
        if isinstance(number, float):
            return "fp32"
        low, high = _INT32
        is_short = low <= number <= high
        low, high = _INT32 if is_short else _INT64
        self._log.require(combine(">=", term_of(value), low))
        self._log.require(combine("<=", term_of(value), high))
        return "i32" if is_short else "i64"

    def _keep(self, term: Term) -> None:
        """Require that a formula has its present value."""
        self._log.keep(term)

    def address_of(self, tensor: torch.Tensor) -> int:
        """Return the fake address of a tensor; its offset is guarded, because host code may decide on it."""
        plain(tensor.storage_offset())
        return super().address_of(tensor)

    def _number(self, value: Number | torch.Tensor) -> Number:
        number: Any = plain(value)
        return super()._number(number)

    def _add_fill(self, tensor: torch.Tensor, value: Number) -> None:
        self.add(SymbolicFill(target=self.symbolic_view(tensor), value=value))

    def _add_copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self.add(SymbolicCopy(source=self.symbolic_view(source), target=self.symbolic_view(target)))

    def _checked_view(self, result: object) -> object:
        """Return views unchecked: each plan that is made from this one is checked."""
        return result


def _counted(size: object) -> int | torch.SymInt:
    if isinstance(size, torch.SymInt | int):
        return size
    raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, f"a size of the grid is {size!r}: it must be an integer")
