"""Conditions: what a kernel does where it decides something. The compiler decides, or the device does for all lanes."""

from collections.abc import Callable, Mapping, Sequence

import triton.language.core as core
from triton import language as tl

from workers.interpreter.builder import Builder
from workers.interpreter.faults import Divergence, NotInterpretable, SpinLimitReached
from workers.interpreter.formats import TritonType


def agreed(tensor: TritonType) -> int | bool:
    """The value of a scalar that decides where a kernel goes on.

    Raises:
        Divergence: If the lanes disagree about it.
        NotInterpretable: If it is a block.
    """
    data = tensor.handle.data
    if data.ndim != 2:
        raise NotInterpretable("the kernel takes a whole block as a condition or an index; reduce it to a scalar first")
    first = data.flat[0]
    if data.size > 1 and not (data == first).all():
        raise Divergence(data)
    value: int | bool = first.item()
    return value


Names = Callable[[], Sequence[str]]


def decide(condition: object, bound: Mapping[str, object] | None = None, names: Names = tuple) -> bool:
    """What `if` does with a condition.

    Where it is the device's, the compiler forgets what the branches assign to `names` that were bound to anything else
    than tensors.
    """
    plain = core._unwrap_if_constexpr(condition)
    if not isinstance(plain, tl.tensor):
        return bool(plain)
    for name in sorted(names()):
        if bound and name in bound and not is_carried(bound[name]):
            raise NotInterpretable(f"'{name}' is no tensor, and assigned where the device decides whether it is")
    return bool(agreed(plain))


def bound_there(
    reads: Callable[[], Sequence[object]], condition: Callable[[], object], yes: Names, no: Names
) -> Sequence[str]:
    """What a condition inside of a branch binds: what one of its own branches does, or both if the device decides.

    Args:
        reads: Values that the condition rests on.
        condition: What decides.
        yes: Names that are bound where it holds.
        no: Names that are bound where it does not.
    """
    if any(isinstance(value, tl.tensor) for value in reads()):
        return [*yes(), *no()]
    return yes() if condition() else no()


def is_carried(value: object) -> bool:
    """Whether a value lives on the device, as a whole."""
    if isinstance(value, tuple | core.tuple):
        return all(map(is_carried, value))
    return isinstance(value, core.base_value) and not isinstance(value, core.constexpr)


def go_on(builder: Builder, condition: object) -> bool:
    """What `while` does with a condition.

    Raises:
        Waiting: If the lanes' patience is at its end.
    """
    if not decide(condition):
        return False
    builder.patience -= 1
    if builder.patience < 0:
        raise SpinLimitReached
    return True


def connect(method: str, decided: bool, *operands: Callable[[], object]) -> object:
    """`and` and `or`: compile-time operands decide or drop out, the others are connected element by element."""
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
    """`not`, element by element."""
    plain = core._unwrap_if_constexpr(value)
    return plain.__not__() if isinstance(plain, tl.tensor) else not plain
