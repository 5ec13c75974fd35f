"""Constants of a reference: tensors that its Python makes before it is called, such as the mask of a module.

Runs inside the sandbox. A graph has no tensors of its own. So `Recorder` notes the operations that make each tensor
while the reference's text runs. `ConstantReplay` repeats them in the graph where the reference uses such a tensor. A
tensor with random values cannot be repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from workers.protocol import Outcome
from workers.tracer.modes import DispatchMode
from workers.tracer.refusal import NotExportable

LARGEST = 2**24
"""Maximum elements of a tensor without values, such as a weight, that gets memory."""
WRITTEN_OUT = 256
"""Maximum elements of a list of numbers that becomes a tensor; each becomes a node of the graph."""
_ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
_OVERWRITES = ("copy_", "fill_", "zero_")
_OVERWRITING = frozenset(getattr(torch.ops.aten, name) for name in _OVERWRITES)
_LIFT = torch.ops.aten.lift_fresh.default

Args = tuple[Any, ...]
Kwargs = dict[str, Any]


@dataclass(frozen=True)
class RecordedCall:
    """One operation that made or changed tensors.

    Attributes:
        operation: The operation.
        args: Its arguments.
        kwargs: Its keyword arguments.
        results: Tensors among its results.
        written: Storages that it allocated or changed.
    """

    operation: OpOverload
    args: Args
    kwargs: Kwargs
    results: tuple[torch.Tensor, ...]
    written: frozenset[int]

    @property
    def name(self) -> str:
        """Name of the operation, such as `tril`."""
        return self.operation._schema.name.partition("::")[2]

    @property
    def is_random(self) -> bool:
        """True if it draws random numbers."""
        return torch.Tag.nondeterministic_seeded in self.operation.tags

    @property
    def taken(self) -> Iterator[torch.Tensor]:
        """The tensors among its arguments."""
        return _tensors((self.args, self.kwargs))


class Recorder(DispatchMode):
    """Mode that notes how tensors are made. Random numbers are not drawn into tensors that exist: nobody reads them."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[RecordedCall] = []
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, operation: OpOverload, types: object, args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        kwargs = kwargs or {}
        writes = [
            value
            for argument, value in zip(operation._schema.arguments, args, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.Tensor)
        ]
        is_random = torch.Tag.nondeterministic_seeded in operation.tags
        result = writes[0] if is_random and writes else _called(operation, args, kwargs, is_blank=is_random)
        results = tuple(_tensors(result))
        taken = {storage_of(each) for each in _tensors((args, kwargs))}
        made = {storage_of(each) for each in results} - taken
        written = frozenset({*made, *(storage_of(each) for each in writes)})
        # All are kept: a storage that is freed would give its address to another.
        self._calls.append(RecordedCall(operation, args, kwargs, results, written))
        self._known |= {storage_of(each) for each in results}
        return result

    def knows(self, tensor: torch.Tensor) -> bool:
        """Return True if the tensor was made while the mode was active."""
        return storage_of(tensor) in self._known

    def history(self, tensor: torch.Tensor) -> list[RecordedCall]:
        """Return the operations that made a tensor, in order."""
        needed, found = {storage_of(tensor)}, []
        for call in reversed(self._calls):
            if needed & {*call.written, *(storage_of(each) for each in call.results)}:
                found.append(call)
                needed |= {storage_of(each) for each in call.taken}
        return found[::-1]

    def is_constant(self, tensor: torch.Tensor) -> bool:
        """Return True if a tensor was made here, without random numbers and without memory that nobody wrote."""
        calls = self.history(tensor)
        blank: set[int] = set()
        for call in calls:
            if call.is_random:
                return False
            if call.name in _ALLOCATIONS:
                blank |= call.written
            elif call.name in _OVERWRITES:
                blank -= call.written
        return bool(calls) and not blank


class ConstantReplay(DispatchMode):
    """Mode that repeats how a recorded tensor was made, where an operation takes it beside tensors without data."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._made: dict[tuple[object, ...], torch.Tensor] = {}
        self._done: set[int] = set()

    def __torch_dispatch__(
        self, operation: OpOverload, types: object, args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        if operation.overloadpacket in _OVERWRITING and self._is_random(args[0]):
            # What it held is not read any more.
            self._made[_view_of(args[0])] = torch.empty(args[0].shape, dtype=args[0].dtype, device="cpu")
        args, kwargs = tree_map_only(torch.Tensor, self._repeated, (args, kwargs or {}))
        if operation is _LIFT and args[0].dim() and not isinstance(args[0], FakeTensor):
            return _written_out(args[0])  # A list of numbers, as in `torch.tensor([1.0, 2.0, 1.0])`.
        return operation(*args, **kwargs)

    def _repeated(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor) or not self._recorder.knows(tensor):
            return tensor
        if _view_of(tensor) not in self._made:
            if self._is_random(tensor):
                raise NotExportable(
                    Outcome.FORBIDDEN_OP,
                    "the reference uses a tensor with random values that is not an argument; take it as an input",
                )
            for call in self._recorder.history(tensor):
                self._repeat(call)
        return self._made[_view_of(tensor)]

    def _is_random(self, tensor: torch.Tensor) -> bool:
        """Return True if a tensor was made by the reference, and cannot be made again."""
        known = not isinstance(tensor, FakeTensor) and self._recorder.knows(tensor)
        return known and not self._recorder.is_constant(tensor)

    def _repeat(self, call: RecordedCall) -> None:
        if id(call) in self._done:
            return
        self._done.add(id(call))
        args, kwargs = tree_map_only(torch.Tensor, self._argument, (call.args, call.kwargs))
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        for old, new in zip(call.results, _tensors(call.operation(*args, **kwargs)), strict=True):
            self._made[_view_of(old)] = new

    def _argument(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a repeated argument; a tensor that no operation made comes from a list of numbers."""
        if _view_of(tensor) not in self._made:
            self._made[_view_of(tensor)] = _written_out(tensor)
        return self._made[_view_of(tensor)]


def _written_out(tensor: torch.Tensor) -> torch.Tensor:
    """Build a tensor from its values, one by one."""
    if tensor.numel() > WRITTEN_OUT:
        raise NotExportable(
            Outcome.FORBIDDEN_OP,
            f"the reference holds a tensor of {tensor.numel()} numbers; build it with torch.arange and the like, or "
            "take it as an input",
        )
    with _disable_current_modes():
        values = tensor.flatten().tolist()
    numbers = [torch.full((), value, dtype=tensor.dtype) for value in values]
    return torch.stack(numbers).view(tensor.shape) if numbers else torch.zeros(tensor.shape, dtype=tensor.dtype)


def _called(operation: OpOverload, args: Args, kwargs: Kwargs, *, is_blank: bool) -> object:
    """Call an operation. A large tensor whose values nobody may read has no memory of its own."""
    name = operation._schema.name.partition("::")[2]
    if "device" in kwargs and (is_blank or name in _ALLOCATIONS):
        made = operation(*args, **{**kwargs, "device": torch.device("meta")})
        if made.numel() > LARGEST and torch.device(kwargs["device"] or "cpu").type != "meta":
            return torch.zeros((), dtype=made.dtype).expand(made.shape)
    return operation(*args, **kwargs)


def storage_of(tensor: torch.Tensor) -> int:
    """Return the identity of a tensor's memory."""
    address: int = tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)
    return address


def _view_of(tensor: torch.Tensor) -> tuple[object, ...]:
    return storage_of(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _tensors(value: object) -> Iterator[torch.Tensor]:
    return (each for each in tree_leaves(value) if isinstance(each, torch.Tensor))
