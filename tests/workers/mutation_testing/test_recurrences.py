"""Recurrent layers are written out by their positions, so that every gate has mutants."""

from tests.workers.mutation_testing.references import LAYERS, operator, sketch_of
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.formulas import written_out
from workers.mutation_testing.mutants import mutants_of
from workers.mutation_testing.recurrences import MOST_POSITIONS


def test_every_gate_has_mutants() -> None:
    of = operator("lstm")
    sketch, inputs = sketch_of(of)
    formulas = TypedGraph.of(written_out(sketch), inputs)
    operations = [node.name for node in formulas.graph.nodes]
    assert operations.count("sigmoid") == 3 * 2 * 4 and operations.count("tanh") == 2 * 2 * 4
    names = [mutant.name for mutant in mutants_of(of, formulas)]
    assert sum("sigmoid" in name for name in names) >= 24 and len(names) > 200


def test_long_layers_stay_whole() -> None:
    of = operator("gru")
    longer = of.inputs[0].model_copy(update={"shape": ("M", MOST_POSITIONS, 3)})
    sketch, _ = sketch_of(of.model_copy(update={"inputs": (longer, *of.inputs[1:])}))
    assert LAYERS["gru"][1] == 3 and written_out(sketch) == sketch.graph
