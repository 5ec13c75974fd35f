"""The catalogue's operators, and the shapes that everything here is traced for."""

from functools import cache

from service.operators.catalogue import load_catalogue
from service.operators.shapes import all_shapes
from workers.protocol import Operator, Shape

SHAPES_SEED = 7
"""Draws the held-out shapes, the same ones every time, so that figures of two days can be compared."""


@cache
def operators() -> dict[str, Operator]:
    """The catalogue, by name."""
    return load_catalogue()


def shapes_of(operator: Operator) -> tuple[Shape, ...]:
    """Boundary, benchmark and held-out shapes."""
    return all_shapes(operator, SHAPES_SEED)
