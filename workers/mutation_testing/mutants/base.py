"""The mutation: one way to spoil an operation of a reference graph, as people and language models do it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from workers.mutation_testing.builder import GraphBuilder
from workers.protocol import Node
from workers.protocol.graph import Value

Spoil: TypeAlias = Callable[[GraphBuilder, Node], Value | None]
"""Function that appends and returns the replacement of a node; None if the mutation does not apply."""


@dataclass(frozen=True)
class Mutation:
    """One way to spoil a node.

    Attributes:
        name: Fault of the result, such as `last element left out`.
        operations: Names of the operations that it applies to, without overloads.
        spoil: Function that makes the change.
        rounds: True if the result differs by rounding only, and equals the reference in exact arithmetic.
    """

    name: str
    operations: frozenset[str]
    spoil: Spoil
    rounds: bool = False


def number(value: Value) -> float | None:
    """Return a constant that is a number; None for booleans and other values."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
