"""Spoiled reductions leave out, run along, or divide by what they say."""

import pytest
import torch

from tests.workers.mutation_testing.mutants.spoiling import spoiled
from tests.workers.mutation_testing.references import operator, results, sketch_of


def of(name: str, mutation: str, **point: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first output as a mutant has it, and the only input."""
    sketch, inputs = sketch_of(operator(name), **point)
    return results(spoiled(sketch, mutation), inputs, double=True)[0], inputs[0].double()


def test_a_mean_without_its_last_element_is_divided_by_all():
    sketch, (x, w) = sketch_of(operator("rmsnorm"))
    got = results(spoiled(sketch, "mean: last element left out"), (x, w), double=True)[0]
    v = x.double()
    assert torch.allclose(got, v * torch.rsqrt(v[:, :-1].square().sum(-1, keepdim=True) / 40 + 1e-6) * w.double())


@pytest.mark.parametrize(("mutation", "kept"), [("last tile", 32), ("a tenth", 36), ("last element", 39)])
def test_sums_leave_out_what_they_say(mutation, kept):
    got, x = of("causal", f"sum: {mutation} left out", M=64)
    right = torch.where(x > 1, x, -x).tril()[:, :kept].sum(-1)
    assert torch.allclose(got, right)


@pytest.mark.parametrize(("mutation", "kept"), [("last tile", 32), ("a tenth", 36), ("last element", 39)])
def test_products_leave_out_what_they_say(mutation, kept):
    sketch, (x, y) = sketch_of(operator("product"))
    got = results(spoiled(sketch, f"mm: {mutation} left out"), (x, y), double=True)[0]
    assert torch.allclose(got, x[:, :kept].double() @ y[:kept].double())


def test_short_reductions_have_no_second_tile_and_no_tenth():
    sketch, _ = sketch_of(operator("causal"), N=8)
    assert spoiled(sketch, "sum: last tile left out") is None
    assert spoiled(sketch, "sum: a tenth left out") is None
    assert spoiled(sketch, "sum: last element left out") is not None


def test_another_axis():
    got, x = of("running", "cumsum: along another axis")
    assert torch.allclose(got, x.cumsum(0))


def test_divisors():
    sketch, (x, t) = sketch_of(operator("loss"))
    right = results(sketch.graph, (x, t), double=True)[0]
    assert torch.allclose(results(spoiled(sketch, "mean: divided by one less"), (x, t), double=True)[0], right * 6 / 5)
    assert torch.allclose(
        results(spoiled(sketch, "mean: not divided by the number"), (x, t), double=True)[0], right * 6
    )


def test_extremes_and_ties():
    sketch, _ = sketch_of(operator("largest"))
    x = torch.tensor([[1.0, 3.0, 3.0, -2.0] * 10] * 6)
    assert (results(sketch.graph, (x,))[0] == 1).all()
    assert (results(spoiled(sketch, "argmax: last of a tie"), (x,))[0] == 38).all()
    assert (results(spoiled(sketch, "argmax: smallest for largest"), (x,))[0] == 3).all()
    assert (results(spoiled(sketch, "amin: smallest for largest"), (x,))[1] == 3).all()


@pytest.mark.parametrize(("name", "end", "other"), [("first", "amin", (1, 38)), ("last", "amax 2", (38, 1))])
def test_of_a_tie_that_is_spelled_out_the_other_end(name, end, other):
    sketch, _ = sketch_of(operator(name))
    x = torch.tensor([[1.0, 3.0, 3.0, -2.0] * 10] * 6)
    spelled = spoiled(sketch, f"{end}: other end of a tie")
    assert [int(results(graph, (x,))[0].unique()) for graph in (sketch.graph, spelled)] == list(other)
    assert {results(graph, (x,))[0].dtype for graph in (sketch.graph, spelled)} == {torch.int64}


def test_extremes_of_values_have_no_ties_to_decide():
    sketch, _ = sketch_of(operator("largest"))
    assert spoiled(sketch, "amin: other end of a tie") is None


def test_a_square_factor_is_transposed():
    sketch, (x, y) = sketch_of(operator("product"))
    got = results(spoiled(sketch, "mm: right operand transposed"), (x, y), double=True)[0]
    assert torch.allclose(got, x.double() @ y.double().T)
    oblong, _ = sketch_of(operator("product"), K=7)
    assert spoiled(oblong, "mm: right operand transposed") is None
