"""Mutants by name."""

from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.mutants import Mutant, mutants_of
from workers.protocol import Graph, Operator


def all_of(operator: Operator, sketch: TypedGraph) -> dict[str, Mutant]:
    """Every mutant of a reference; their names differ."""
    found = list(mutants_of(operator, sketch))
    named = {mutant.name: mutant for mutant in found}
    assert len(named) == len(found)
    return named


def spoiled(sketch: TypedGraph, name: str, of: Operator | None = None) -> Graph | None:
    """The graph of a mutant; None where it does not apply."""
    return all_of(of or _nameless(sketch), sketch)[name].build()


def _nameless(sketch: TypedGraph) -> Operator:
    """An operator that allows whatever the reference does, under names of no interest."""
    return Operator.model_validate(
        {
            "name": "f",
            "entry": "f",
            "reference": "f",
            "inputs": [{"name": "x", "shape": [1], "dtype": "float32"}],
            "outputs": [{"name": "y", "dtype": "float32"}],
            "shapes": [{"dims": {}}],
        }
    )
