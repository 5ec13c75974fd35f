"""Operations of torch on the target's tensors, sorted by their meaning for a plan."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

import torch
from torch._ops import OpOverload

from workers.protocol import Outcome
from workers.protocol.plan import is_representable
from workers.tracer.movements import MOVEMENTS
from workers.tracer.refusal import TraceRefused

Args = Sequence[Any]
Kwargs = Mapping[str, Any]
Number = bool | int | float

FILL_VALUES: Mapping[str, Callable[[Args], Any]] = {
    "zeros": lambda _: 0,
    "zeros_like": lambda _: 0,
    "new_zeros": lambda _: 0,
    "zero_": lambda _: 0,
    "ones": lambda _: 1,
    "ones_like": lambda _: 1,
    "new_ones": lambda _: 1,
    "full": lambda args: args[1],
    "full_like": lambda args: args[1],
    "fill_": lambda args: args[1],
    "new_full": lambda args: args[2],
    "scalar_tensor": lambda args: args[0],
}
"""Operations that fill, with functions that find the value among their arguments."""


class OperationKind(Enum):
    """Kind of an operation, by its effect."""

    ALLOCATION = auto()
    FILLED_ALLOCATION = auto()
    WRAPPED_NUMBER = auto()
    FILL = auto()
    COPY = auto()
    CONVERSION = auto()
    MOVEMENT = auto()
    VIEW = auto()
    READ = auto()
    RANDOM = auto()
    COMPUTATION = auto()


_KINDS = {
    OperationKind.ALLOCATION: (
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    ),
    OperationKind.WRAPPED_NUMBER: ("scalar_tensor",),
    OperationKind.FILL: ("fill_", "zero_"),
    OperationKind.COPY: ("copy_",),
    OperationKind.CONVERSION: ("clone", "_to_copy"),
    OperationKind.MOVEMENT: tuple(MOVEMENTS),
    # Views that torch's schema does not mark as such.
    OperationKind.VIEW: ("_unsafe_view", "_reshape_alias", "lift_fresh", "detach", "alias"),
    OperationKind.READ: ("_local_scalar_dense", "item", "equal", "nonzero", "is_nonzero", "masked_select", "_unique2"),
    OperationKind.RANDOM: ("rand", "rand_like", "randn", "randn_like", "randint", "uniform_", "normal_", "bernoulli_"),
}
_KIND_BY_NAME = {name: kind for kind, names in _KINDS.items() for name in names}


def name_of(operation: OpOverload) -> str:
    """Return the operation's name without namespace and overload, such as `empty_like`."""
    return operation._schema.name.partition("::")[2]


def kind_of(operation: OpOverload) -> OperationKind:
    """Return the kind of an operation."""
    name = name_of(operation)
    if name in _KIND_BY_NAME:
        return _KIND_BY_NAME[name]
    if name in FILL_VALUES:
        return OperationKind.FILLED_ALLOCATION
    aliases = [item.alias_info for item in operation._schema.returns]
    if any(alias is not None and not alias.is_write for alias in aliases):
        return OperationKind.VIEW
    return OperationKind.COMPUTATION


def filled(value: Number, dtype: torch.dtype) -> Number:
    """Return the value that torch fills a tensor with for a given number.

    Minus one is 255 in `uint8`, and any number but zero is True in `bool`. A number that the dtype represents, or
    rounds, stays as it was written.

    Raises:
        RuntimeError: If torch refuses the number; the message is torch's.
    """
    # Two elements, because on the host torch fills a single one without a check; on a card it never does so.
    made: Number = torch.full((2,), value, dtype=dtype, device="cpu")[0].item()
    return value if is_representable(value, str(dtype).removeprefix("torch.")) else made


def is_on_target(args: Args, kwargs: Kwargs) -> bool:
    """Return True if an operation concerns the target; tensors of the host are not recorded."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "meta":
        return True
    return any(_has_meta(value) for value in (*args, *kwargs.values()))


def refusal(operation: OpOverload) -> TraceRefused:
    """Explain why a plan cannot hold an operation, with the remedy."""
    name, kind = name_of(operation), kind_of(operation)
    if kind is OperationKind.READ:
        return TraceRefused(Outcome.HOST_READ, f"host code reads a tensor's values ({name}): decide inside the kernel")
    if kind is OperationKind.RANDOM:
        return TraceRefused(Outcome.FORBIDDEN_OP, f"host code draws random numbers ({name}): use tl.rand in a kernel")
    if operation.namespace not in ("aten", "prims"):
        reason = f"host code calls a custom operator ({name}): call the function that launches the kernels directly"
        return TraceRefused(Outcome.FORBIDDEN_OP, reason)
    return TraceRefused(
        Outcome.FORBIDDEN_OP,
        f"host code computes with torch ({name}): do it in a Triton kernel; on the host only allocate, fill, view, "
        "launch, and copy where the operator's policy allows it",
    )


def _has_meta(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_meta
    return isinstance(value, tuple | list) and any(_has_meta(item) for item in value)
