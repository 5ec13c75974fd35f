"""Custom operators: what `torch.library` registers is called as the plain function that it is."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Function = Callable[..., Any]


class CustomOperator:
    """A function registered as an operator; also found as `torch.ops.<namespace>.<name>`, with its overload `default`.

    Its variants for fake tensors, gradients and other devices are never called while tracing, and forgotten.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self.default = self
        self.__name__ = getattr(function, "__name__", "operator")
        self.__doc__ = function.__doc__

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function."""
        return self._function(*args, **kwargs)

    def register_kernel(self, devices: str | Sequence[str] | None, function: Function | None = None) -> Function:
        """Register the function for some devices: that for `cuda` is the operator here."""
        named = (devices,) if isinstance(devices, str) else devices

        def register(given: Function) -> Function:
            if named is None or "cuda" in named:
                self._function = given
            return given

        return register if function is None else register(function)

    def register_fake(self, function: Function | None = None, /, *_: object, **__: object) -> Function:
        """Accept a function that is not called here."""
        return function or (lambda given: given)

    register_vmap = register_autograd = register_torch_dispatch = register_fake


def install() -> None:
    """Replace the decorators of `torch.library`."""
    replaced: dict[str, Function] = {"custom_op": _define, "triton_op": _define, "register_kernel": _register_kernel}
    replaced |= dict.fromkeys(
        ("register_fake", "register_autograd", "register_vmap", "register_torch_dispatch"), _forget
    )
    for name, replacement in replaced.items():
        setattr(torch.library, name, replacement)


def _define(name: str, function: Function | None = None, /, **_: object) -> Function:
    def define(given: Function) -> CustomOperator:
        operator = CustomOperator(given)
        namespace, _, plain = name.partition("::")
        setattr(getattr(torch.ops, namespace), plain, operator)
        return operator

    return define if function is None else define(function)


def _forget(_: object, function: Function | None = None, /, *__: object, **___: object) -> Function:
    return function or (lambda given: given)


def _register_kernel(
    operator: CustomOperator | str, devices: str | Sequence[str] | None, function: Function | None = None, **__: object
) -> Function:
    if isinstance(operator, str):
        namespace, _, plain = operator.partition("::")
        operator = getattr(getattr(torch.ops, namespace), plain)
    assert isinstance(operator, CustomOperator)
    return operator.register_kernel(devices, function)
