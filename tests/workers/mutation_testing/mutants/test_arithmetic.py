"""Spoiled arithmetic lacks, or has, what it says."""

import torch

from tests.workers.mutation_testing.mutants.spoiling import spoiled
from tests.workers.mutation_testing.references import operator, results, sketch_of
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.formulas import written_out


def test_operands_are_left_out_where_the_other_fits():
    sketch, (x, y) = sketch_of(operator("added"))
    assert torch.equal(results(spoiled(sketch, "add: without its right operand"), (x, y))[0], x)
    assert torch.equal(results(spoiled(sketch, "add: without its left operand"), (x, y))[0], y)
    scaled, (x, w) = sketch_of(operator("rmsnorm"))
    assert spoiled(scaled, "mul 2: without its left operand") is None, "the weight alone is smaller than the result"
    without = results(spoiled(scaled, "mul 2: without its right operand"), (x, w), double=True)[0]
    assert torch.allclose(without, results(scaled.graph, (x, torch.ones_like(w)), double=True)[0])


def test_epsilon():
    sketch, (x, w) = sketch_of(operator("rmsnorm"))
    faint, v = x * 1e-3, (x * 1e-3).double()
    mean = v.square().mean(-1, keepdim=True)
    for name, epsilon in (("left out", 0.0), ("ten times as large", 1e-5)):
        got = results(spoiled(sketch, f"add: epsilon {name}"), (faint, w), double=True)[0]
        assert torch.allclose(got, v * torch.rsqrt(mean + epsilon) * w.double())
    assert spoiled(sketch, "add: constant larger by 1%") is None


def test_constants():
    sketch, (x,) = sketch_of(operator("negligible"))
    assert torch.allclose(
        results(spoiled(sketch, "mul: constant larger by 1%"), (x,), double=True)[0], x.double() * 1.01e-44
    )


def test_operations_are_left_out():
    sketch, (x,) = sketch_of(operator("turned"))
    a, b = x.chunk(2, -1)
    assert torch.equal(results(spoiled(sketch, "neg: left out"), (x,))[0], torch.cat((b, a), -1).flip(0))
    assert torch.equal(results(spoiled(sketch, "flip: left out"), (x,))[0], torch.cat((-b, a), -1))


def test_borders():
    sketch, _ = sketch_of(operator("causal"))
    x = torch.ones(6, 40)
    assert torch.equal(results(sketch.graph, (x,))[0], -x.tril().sum(-1))
    assert torch.equal(results(spoiled(sketch, "gt: border off by one"), (x,))[0], x.tril().sum(-1))


def test_approximations_are_near_but_not_right():
    for name, site in (
        ("softmax", "exp"),
        ("loss", "log"),
        ("gelu", "tanh"),
        ("gelu_erf", "erf"),
        ("masked", "sigmoid"),
    ):
        reference, inputs = sketch_of(operator(name))
        sketch = TypedGraph.of(written_out(reference), inputs)
        got = results(spoiled(sketch, f"{site}: by a cheap approximation"), inputs, double=True)[-1]
        right = results(sketch.graph, inputs, double=True)[-1]
        off = (got - right).abs().max() / right.abs().max()
        assert 1e-3 < off < 0.2, (name, off)
