"""Mutants that round are right in float64 and coarse in their own dtypes."""

from itertools import pairwise

import pytest
import torch

from tests.workers.mutation_testing.mutants.spoiling import all_of, spoiled
from tests.workers.mutation_testing.references import operator, results, sketch_of
from workers.mutation_testing.mutants.roundings import STEPS, steps


@pytest.mark.parametrize("name", ["product", "causal", "rmsnorm", "loss", "masked"])
def test_they_round_and_do_nothing_else(name):
    of = operator(name)
    sketch, inputs = sketch_of(of, N=512)
    exact, native = results(sketch.graph, inputs, double=True), results(sketch.graph, inputs)
    rounding = [mutant for mutant in all_of(of, sketch).values() if mutant.rounds]
    assert any("added up in bfloat16" in mutant.name for mutant in rounding)
    for mutant in rounding:
        graph = mutant.build()
        assert all(map(torch.allclose, results(graph, inputs, double=True), exact)), mutant.name
        got = results(graph, inputs)
        assert [value.dtype for value in got] == [value.dtype for value in native]
        assert any(not torch.equal(a, b) for a, b in zip(got, native, strict=True)), mutant.name


def test_tf32_keeps_eleven_bits():
    sketch, (x, y) = sketch_of(operator("product"))
    got = results(spoiled(sketch, "mm: operands cut to TF32"), (x, y))[0]

    def cut(values):
        bits = values.view(torch.int32)
        return ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)

    assert torch.allclose(got, cut(x) @ cut(y), rtol=1e-6, atol=1e-6)
    assert not torch.allclose(got, x @ y, rtol=1e-6, atol=1e-6)


def test_tf32_is_no_mutation_where_it_is_allowed():
    allowed = operator("product", precision={"allow_tf32": True})
    sketch, _ = sketch_of(allowed)
    assert not any("TF32" in name for name in all_of(allowed, sketch))


def test_tf32_is_no_mutation_where_results_are_narrower():
    narrow = operator("product", outputs=[{"name": "out0", "dtype": "bfloat16"}])
    sketch, _ = sketch_of(operator("product"))
    assert any("TF32" in name for name in all_of(operator("product"), sketch))
    assert not any("TF32" in name for name in all_of(narrow, sketch))


def test_steps_cover_an_axis():
    for size in (1, 5, 32, 33, 1000):
        parts = steps(size)
        assert parts[0][0] == 0 and parts[-1][1] == size and len(parts) <= STEPS
        assert all(before[1] == after[0] for before, after in pairwise(parts))


def test_float8_loses_a_digit():
    of = operator("quantised")
    sketch, inputs = sketch_of(of)
    right = results(sketch.graph, inputs)[0].float()
    got = results(spoiled(sketch, "output 'y': a digit fewer"), inputs)[0].float()
    assert torch.equal(got, got.to(torch.float8_e5m2).float()) and not torch.equal(got, right)
    assert ((got - right).abs() <= right.abs() / 8).all()
