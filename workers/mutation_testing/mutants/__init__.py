"""Mutants: wrong implementations of an operator, made from its reference graph. Pure data; no foreign code runs.

reductions   elements, axes and divisors of sums
arithmetic   operands, constants and operations left out or replaced by cheaper ones
selections   masks, indices, the joining of parts
roundings    sums in a half-precision dtype, operands cut to TF32, float8 with a digit fewer
boundaries   elements of inputs and outputs not read, not written, moved or made harmless
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import starmap

from workers.float8 import is_float8
from workers.mutation_testing.builder import GraphBuilder, TypedGraph, rewrite
from workers.mutation_testing.mutants import arithmetic, reductions, roundings, selections
from workers.mutation_testing.mutants.base import Mutation
from workers.mutation_testing.mutants.boundaries import input_mutants, output_mutants
from workers.protocol import DTYPE_BYTES, Graph, Node, Operator
from workers.protocol.graph import Value
from workers.tf32 import takes_tf32

__all__ = ["Mutant", "mutants_of"]


@dataclass(frozen=True)
class Mutant:
    """One wrong implementation at one shape.

    Attributes:
        name: Name of the fault; equal at all shapes.
        build: Function that makes the graph; None if the mutation does not apply at this shape.
        rounds: True if it equals the reference in exact arithmetic.
    """

    name: str
    build: Callable[[], Graph | None]
    rounds: bool = False


def mutants_of(operator: Operator, sketch: TypedGraph) -> Iterator[Mutant]:
    """Yield every mutant of a reference at one shape; a few hundred for a graph of some dozens of nodes."""
    for position, item in enumerate(operator.given):
        yield from starmap(Mutant, input_mutants(sketch, position, item))
    for number, output in enumerate(operator.results):
        yield from starmap(Mutant, output_mutants(sketch, number, output))
        if is_float8(sketch.forms[sketch.graph.outputs[number]].dtype):
            fewer = partial(roundings.with_fewer_digits, sketch, number)
            yield Mutant(f"output '{output.name}': a digit fewer", fewer, rounds=True)
    yield from _node_mutants(operator, sketch)
    for name, dtype in roundings.HALVES.items():
        yield Mutant(f"all arithmetic in {name}", partial(roundings.all_in, sketch, dtype), rounds=True)


def _node_mutants(operator: Operator, sketch: TypedGraph) -> Iterator[Mutant]:
    # If all results are rounded to fewer digits than TF32 has, TF32 is detected only by chance.
    allowed = operator.precision.allow_tf32
    rounds = any(takes_tf32(node, allowed) for node in sketch.graph.nodes)
    allow_tf32 = allowed is True or rounds or all(DTYPE_BYTES[item.dtype] < 4 for item in operator.results)
    rounding = roundings.mutations(allow_tf32=allow_tf32)
    table = (*reductions.MUTATIONS, *arithmetic.MUTATIONS, *selections.MUTATIONS, *rounding)
    occurring = Counter(node.name for node in sketch.graph.nodes)
    seen: Counter[str] = Counter()
    for site, node in enumerate(sketch.graph.nodes):
        operation = node.name
        seen[operation] += 1
        place = f"{operation} {seen[operation]}" if occurring[operation] > 1 else operation
        for mutation in table:
            if operation in mutation.operations:
                yield Mutant(f"{place}: {mutation.name}", partial(_spoiled, sketch, site, mutation), mutation.rounds)


def _spoiled(sketch: TypedGraph, site: int, mutation: Mutation) -> Graph | None:
    applied = False

    def change(draft: GraphBuilder, node: Node, index: int) -> Value | None:
        nonlocal applied
        if index != site:
            return None
        value = mutation.spoil(draft, node)
        applied = value is not None
        return value

    graph = rewrite(sketch, change)
    return graph if applied else None
