"""The whole table: every mutation applies somewhere, names tell mutants apart, and what is spoiled is spoiled."""

from functools import cache

import pytest
import torch

from tests.workers.mutation_testing.mutants.spoiling import all_of
from tests.workers.mutation_testing.references import REFERENCES, operator, results, sketch_of
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.formulas import written_out
from workers.mutation_testing.mutants import arithmetic, reductions, roundings, selections

TABLE = (
    *reductions.MUTATIONS,
    *arithmetic.MUTATIONS,
    *selections.MUTATIONS,
    *roundings.mutations(allow_tf32=False),
)
NAMES = sorted({mutation.name for mutation in TABLE})


@cache
def spoiling() -> frozenset[str]:
    """Names of the mutations that change what some reference computes."""
    found = set()
    for name in REFERENCES:
        of = operator(name)
        reference, inputs = sketch_of(of)
        sketch = TypedGraph.of(written_out(reference), inputs)
        tied = tuple(tensor.round() if tensor.is_floating_point() else tensor for tensor in inputs)
        for mutant in all_of(of, sketch).values():
            if any(changes(mutant, values, sketch) for values in (inputs, tied)):
                found.add(mutant.name.split(": ")[-1])
    return frozenset(found)


def changes(mutant, inputs, sketch) -> bool:
    graph = mutant.build()
    try:
        got = () if graph is None else results(graph, inputs)
    except (RuntimeError, IndexError, ValueError):
        return False
    right = results(sketch.graph, inputs)
    return any(a.shape == b.shape and not torch.equal(a, b) for a, b in zip(got, right, strict=False))


@pytest.mark.parametrize("name", NAMES)
def test_every_mutation_changes_some_result(name):
    assert name in spoiling()


def test_names_are_equal_at_all_shapes():
    of = operator("rmsnorm")
    small, large = (set(all_of(of, sketch_of(of, N=size)[0])) for size in (8, 64))
    assert small < large
    assert {name.split(": ")[1].partition(" of axis")[0] for name in large - small} == {"last tile"}


def test_places_are_counted_where_an_operation_occurs_more_than_once():
    of = operator("rmsnorm")
    names = all_of(of, sketch_of(of)[0])
    assert {"mul 1: without its right operand", "mul 2: without its right operand", "mean: a tenth left out"} <= set(
        names
    )
