"""Conditions in kernels: decided by the compiler, or by the device for all lanes together."""

from collections.abc import Callable, Mapping, Sequence

import triton.language.core as core
from triton import language as tl

from workers.interpreter.builder import Builder
from workers.interpreter.elementwise import agreed_element
from workers.interpreter.faults import Divergence, NotInterpretable, SpinLimitReached
from workers.interpreter.formats import TritonType


def agreed(tensor: TritonType) -> int | bool:
    """Return the value of a scalar that decides control flow.

    Raises:
        Divergence: If the lanes disagree.
        NotInterpretable: If it is a block, and no function is applied to its elements.
    """
    data = tensor.handle.data
    if data.ndim != 2:
        if (element := agreed_element(data)) is not None:
            return element
        raise NotInterpretable("the kernel takes a whole block as a condition or an index; reduce it to a scalar first")
    first = data.flat[0]
    if data.size > 1 and not (data == first).all():
        raise Divergence(data)
    value: int | bool = first.item()
    return value


Names = Callable[[], Sequence[str]]


def decide(condition: object, bound: Mapping[str, object] | None = None, names: Names = tuple) -> bool:
    """Evaluate the condition of an `if`.

    If the device decides, the compiler forgets assignments of the branches to `names` that were not bound to tensors.
    """
    plain = core._unwrap_if_constexpr(condition)
    if not isinstance(plain, tl.tensor):
        return bool(plain)
    for name in sorted(names()):
        if bound and name in bound and not is_carried(bound[name]):
            raise NotInterpretable(f"'{name}' is no tensor, and is assigned in a branch that the device decides")
    return bool(agreed(plain))


def nested_names(
    reads: Callable[[], Sequence[object]], condition: Callable[[], object], yes: Names, no: Names
) -> Sequence[str]:
    """Return names that a nested condition binds: those of one branch, or of both if the device decides.

    Args:
        reads: Values that the condition depends on.
        condition: The condition.
        yes: Names bound if it holds.
        no: Names bound if it does not.
    """
    if any(isinstance(value, tl.tensor) for value in reads()):
        return [*yes(), *no()]
    return yes() if condition() else no()


def is_carried(value: object) -> bool:
    """True if a value lives entirely on the device."""
    if isinstance(value, tuple | core.tuple):
        return all(map(is_carried, value))
    return isinstance(value, core.base_value) and not isinstance(value, core.constexpr)


def continue_loop(builder: Builder, condition: object) -> bool:
    """Evaluate the condition of a `while`.

    Raises:
        SpinLimitReached: If the lanes have no iterations left.
    """
    if not decide(condition):
        return False
    builder.patience -= 1
    if builder.patience < 0:
        raise SpinLimitReached
    return True


def connect(method: str, decided: bool, *operands: Callable[[], object]) -> object:
    """Evaluate `and` or `or`: compile-time operands decide or drop out, others are combined elementwise."""
    result: object = None
    for operand in operands:
        value = core._unwrap_if_constexpr(operand())
        if isinstance(value, tl.tensor):
            result = getattr(result, method)(value) if isinstance(result, tl.tensor) else value
        elif bool(value) is decided:
            return value
        elif not isinstance(result, tl.tensor):
            result = value
    return result


def negate(value: object) -> object:
    """Evaluate `not` elementwise."""
    plain = core._unwrap_if_constexpr(value)
    return plain.__not__() if isinstance(plain, tl.tensor) else not plain
