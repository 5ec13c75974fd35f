"""Mutants by name."""

from workers.gate.drafting import Sketch
from workers.gate.mutants import Mutant, mutants_of
from workers.protocol import Graph, Operator


def all_of(operator: Operator, sketch: Sketch) -> dict[str, Mutant]:
    """Every mutant of a reference; their names differ."""
    found = list(mutants_of(operator, sketch))
    named = {mutant.name: mutant for mutant in found}
    assert len(named) == len(found)
    return named


def spoiled(sketch: Sketch, name: str, of: Operator | None = None) -> Graph | None:
    """The graph of a mutant; None where it does not apply."""
    return all_of(of or _nameless(sketch), sketch)[name].build()


def _nameless(sketch: Sketch) -> Operator:
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
