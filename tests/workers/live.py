"""How much memory of tensors is alive at a time, counted operation by operation."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """While it is entered, remembers the most bytes that tensors held at the end of an operation.

    Args:
        given: Tensors that are there from the beginning.

    Attributes:
        most: The most so far.
    """

    def __init__(self, *given: torch.Tensor) -> None:
        super().__init__()
        self.most = 0
        self._alive = [weakref.ref(tensor) for tensor in given]

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self._alive += [weakref.ref(each) for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        self._alive = [each for each in self._alive if each() is not None]
        storages = (tensor.untyped_storage() for each in self._alive if (tensor := each()) is not None)
        self.most = max(self.most, sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values()))
        return result
