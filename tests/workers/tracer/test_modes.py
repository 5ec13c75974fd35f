"""A mode sees each operation."""

import torch
from torch._ops import OpOverload

from workers.tracer.modes import DispatchMode


class Seen(DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, operation: OpOverload, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        self.names.append(operation._schema.name)
        return operation(*args, **(kwargs or {}))


def test_a_mode_sees_operations_while_it_is_active() -> None:
    with Seen() as seen:
        torch.ones(2).add(1)
    torch.ones(2).mul(2)
    assert seen.names == ["aten::ones", "aten::add"]
