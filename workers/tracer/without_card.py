"""Python that was written for a card, run without one: its tensors are on no card, and nothing of it is compiled.

Runs inside the sandbox. A reference is its operations, whatever device its author used.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CARD = "cuda"
"""Type of the devices that are left out."""
_MOVES = (torch.Tensor.cuda, torch.Tensor.to)


class WithoutCard(TorchFunctionMode):
    """Mode in which a tensor that is asked for on a card is made where all others are."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        kwargs.pop("pin_memory", None)
        if _is_card(kwargs.get("device")):
            del kwargs["device"]
        if func in _MOVES:
            args = (args[0], *(each for each in args[1:] if not _is_card(each)))
            if len(args) == 1 and not {"dtype", "device", "memory_format", "other"} & kwargs.keys():
                return args[0]
        return func(*args, **kwargs)


def _is_card(value: object) -> bool:
    if isinstance(value, str):
        return value.partition(":")[0] == CARD
    return isinstance(value, torch.device) and value.type == CARD


def uncompiled(function: object = None, *_: object, **__: object) -> object:
    """Return a function as it is, also as a decorator with settings."""
    return (lambda decorated: decorated) if function is None else function


@contextmanager
def without_card() -> Iterator[None]:
    """Run Python of others as if nothing of it had to be on a card or compiled.

    `torch.autocast("cuda")` switches itself on as on a card, so that `OperationGuard` sees it.
    """
    replaced: list[tuple[Any, str, Callable[..., Any]]] = [
        (torch, "compile", uncompiled),
        (torch.jit, "script", uncompiled),
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        (torch.cuda, "is_bf16_supported", lambda *_: True),
    ]
    before = [getattr(owner, name) for owner, name, _ in replaced]
    for owner, name, function in replaced:
        setattr(owner, name, function)
    try:
        with WithoutCard():
            yield
    finally:
        for (owner, name, _), original in zip(replaced, before, strict=True):
            setattr(owner, name, original)
