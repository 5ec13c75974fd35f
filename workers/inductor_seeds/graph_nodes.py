"""Nodes of a traced graph: what they are given, their fake tensors, and calls that are inserted."""

from collections.abc import Callable
from typing import Any, TypeGuard

import torch
from torch import fx
from torch.fx.node import Argument


def given_to(node: fx.Node) -> tuple[Any, ...]:
    """Return the arguments of a node."""
    return node.args


def value_of(node: fx.Node) -> torch.Tensor:
    """Return the fake tensor of a node that has one."""
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value


def is_call(node: object, target: object, first: fx.Node | None = None) -> TypeGuard[fx.Node]:
    """Return True for a call of an operation, with a certain first argument if one is named."""
    return isinstance(node, fx.Node) and node.target is target and (first is None or node.args[0] is first)


def insert_call(graph: fx.Graph, target: Callable[..., object], *args: Argument, **kwargs: Argument) -> fx.Node:
    """Insert a call where the graph inserts, with its fake result; within the mode of the graph's fake tensors."""
    node = graph.call_function(target, args, kwargs)
    node.meta["val"] = target(*fx.map_arg(args, lambda each: each.meta["val"]), **kwargs)
    return node
