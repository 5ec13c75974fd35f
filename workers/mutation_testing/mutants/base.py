"""What a mutation is: one way to spoil an operation of a reference graph, as people and language models do it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from workers.mutation_testing.builder import GraphBuilder
from workers.protocol import Node
from workers.protocol.graph import Value

Spoil: TypeAlias = Callable[[GraphBuilder, Node], Value | None]
"""Appends what takes the place of a node, and returns it; None where the mutation does not apply."""


@dataclass(frozen=True)
class Mutation:
    """One way to spoil a node.

    Attributes:
        name: What is wrong with the result, such as `last element left out`.
        operations: Names of the operations it applies to, without overloads.
        spoil: Makes the change.
        rounds: Whether the result differs by rounding only, and equals the reference in exact arithmetic.
    """

    name: str
    operations: frozenset[str]
    spoil: Spoil
    rounds: bool = False


def number(value: Value) -> float | None:
    """A constant that is a number, and not a truth value."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
