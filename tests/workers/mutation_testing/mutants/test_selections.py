"""Spoiled masks, indices and joins."""

import torch

from tests.workers.mutation_testing.mutants.spoiling import spoiled
from tests.workers.mutation_testing.references import operator, results, sketch_of


def test_diagonals():
    sketch, (x,) = sketch_of(operator("causal"))
    chosen = torch.where(x > 1, x, -x)
    for shift in (-1, 1):
        got = results(spoiled(sketch, f"tril: diagonal off by {shift}"), (x,))[0]
        assert torch.equal(got, chosen.tril(shift).sum(-1))
    assert torch.equal(results(spoiled(sketch, "tril: mask left out"), (x,))[0], chosen.sum(-1))


def test_choices():
    sketch, (x,) = sketch_of(operator("causal"))
    assert torch.equal(results(spoiled(sketch, "where: only the first choice"), (x,))[0], x.tril().sum(-1))
    assert torch.equal(results(spoiled(sketch, "where: only the second choice"), (x,))[0], -x.tril().sum(-1))


def test_masks():
    sketch, (x, m) = sketch_of(operator("masked"))
    assert torch.equal(results(spoiled(sketch, "masked_fill: mask left out"), (x, m))[0], x.sum(-1))


def test_indices():
    sketch, (index, weight) = sketch_of(operator("embedding"))
    assert torch.equal(
        results(spoiled(sketch, "embedding: index off by one"), (index, weight))[0], weight[(index + 1) % 40]
    )
    loss, (x, target) = sketch_of(operator("loss"))
    got = results(spoiled(loss, "gather: index off by one"), (x, target), double=True)[0]
    assert torch.allclose(got, results(loss.graph, (x, (target + 1) % 40), double=True)[0])


def test_joins():
    sketch, (x,) = sketch_of(operator("turned"))
    a, b = x.chunk(2, -1)
    assert torch.equal(results(spoiled(sketch, "cat: parts in reverse"), (x,))[0], torch.cat((a, -b), -1).flip(0))
