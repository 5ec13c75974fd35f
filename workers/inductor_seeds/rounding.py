"""Rounding of 16-bit values with several readers.

TorchInductor computes these in float32 and rounds them where they are stored. One reader then gets the value before it
is rounded, and another one reads it from memory. A norm subtracts the mean of other numbers than it has: in a row of
one element the difference is multiplied by the root of 1 / eps.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol

import torch
from torch import fx

from workers.inductor_seeds.operations import HALVES
from workers.reference import moves


class _Value(Protocol):
    """A tensor of Inductor's."""

    def get_dtype(self) -> torch.dtype: ...
    def get_device(self) -> torch.device: ...
    def get_size(self) -> Sequence[object]: ...
    def make_loader(self) -> Callable[[object], object]: ...


def round_what_is_read_twice(traced: fx.GraphModule) -> None:
    """Have all readers of a computed 16-bit value get it rounded, as in PyTorch; results are rounded as stored."""
    rounded = set[fx.Node]()
    for node in [*traced.graph.nodes]:
        sources = node.all_input_nodes
        if node.op != "call_function" or (moves(_name(node)) and rounded.issuperset(sources)):
            rounded.add(node)
            continue
        value = node.meta.get("val")
        readers = [user for user in node.users if user.op != "output" and not _changes(user)]
        if not isinstance(value, torch.Tensor) or value.dtype not in HALVES or len(node.users) < 2 or _changes(node):
            continue
        if not readers or any(_changes(user) and user.args[0] is node for user in node.users):
            continue
        with traced.graph.inserting_after(node):
            made = traced.graph.call_function(_rounded, (node,))
        made.meta["val"] = value
        rounded.add(made)
        for reader in readers:
            reader.replace_input_with(node, made)
    traced.recompile()


def _rounded(value: _Value) -> object:
    """Return a value rounded to its dtype."""
    ir, virtualized = import_module("torch._inductor.ir"), import_module("torch._inductor.virtualized")
    dtype, load = value.get_dtype(), value.make_loader()

    def inner(index: object) -> object:
        stored = virtualized.ops.to_dtype(load(index), dtype, use_compute_types=False)
        return virtualized.ops.to_dtype(stored, dtype)

    return ir.Pointwise.create(device=value.get_device(), dtype=dtype, inner_fn=inner, ranges=value.get_size())


vars(_rounded)["_inductor_lowering_function"] = True  # Inductor calls it as it is.


def _name(node: fx.Node) -> str:
    target = node.target
    return target._schema.name.split("::")[1] if isinstance(target, torch._ops.OpOverload) else ""


def _changes(node: fx.Node) -> bool:
    """Return True if a node writes to its first argument."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
