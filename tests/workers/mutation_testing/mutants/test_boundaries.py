"""Inputs and outputs that are ignored, moved, cut off, made harmless or scaled."""

import torch

from tests.workers.mutation_testing.mutants.spoiling import all_of
from tests.workers.mutation_testing.references import operator, results, sketch_of
from workers.mutation_testing.builder import TypedGraph
from workers.mutation_testing.formulas import written_out
from workers.mutation_testing.mutants.boundaries import FLOAT8_SCALE, SCALE, last_rounding

ADDED = operator("added")


def mutant_of(name: str, *, of=ADDED, **point: int):
    sketch, inputs = sketch_of(of, **point)
    graph = all_of(of, sketch)[name].build()
    return lambda *values: results(graph, values or inputs)[0], inputs


def test_inputs_are_ignored():
    zeros, (x, _) = mutant_of("input 'y': ignored, zeros instead")
    ones, _ = mutant_of("input 'y': ignored, ones instead")
    assert torch.equal(zeros(), x)
    assert torch.equal(ones(), x + 1)


def test_ends_of_inputs_are_not_read():
    element, (x, y) = mutant_of("input 'x': last element of axis 0 left out")
    tile, _ = mutant_of("input 'x': last tile of axis 1 left out")
    assert torch.equal(element()[:-1], (x + y)[:-1]) and torch.equal(element()[-1], y[-1])
    assert torch.equal(tile()[:, :32], (x + y)[:, :32]) and torch.equal(tile()[:, 32:], y[:, 32:])


def test_ends_of_outputs_are_not_written():
    zero, (x, y) = mutant_of("output 'out0': last tile of axis 1 left out")
    unwritten, _ = mutant_of("output 'out0': last element of axis 1 left out, left as it was")
    assert torch.equal(zero()[:, :32], (x + y)[:, :32]) and not zero()[:, 32:].any()
    assert unwritten()[:, -1].isnan().all() and unwritten()[:, :-1].isfinite().all()


def test_short_axes_have_one_tile():
    sketch, _ = sketch_of(ADDED, N=16)
    assert not any("last tile of axis 1" in name for name in all_of(ADDED, sketch))


def test_results_are_moved():
    moved, (x, y) = mutant_of("output 'out0': off by one along its rows")
    assert torch.equal(moved(), (x + y).roll(1, 1))


def test_special_values_are_swallowed():
    x = torch.tensor([[float("nan"), float("inf"), float("-inf"), 1.0] * 10] * 6)
    nan, _ = mutant_of("output 'out0': NaN swallowed")
    infinite, _ = mutant_of("input 'x': infinities swallowed")
    assert nan(x, torch.zeros_like(x))[0, :4].tolist() == [0.0, float("inf"), float("-inf"), 1.0]
    clamped = infinite(x, torch.zeros_like(x))[0, :4]
    assert clamped[0].isnan() and clamped[1:].isfinite().all()


def test_inputs_without_special_values_cannot_swallow_them():
    bounded = [{"name": "x", "shape": ["M", "N"], "dtype": "bfloat16", "low": 0.0, "high": 1.0}]
    of = operator("silu", inputs=bounded)
    sketch, _ = sketch_of(of)
    assert "input 'x': NaN swallowed" not in all_of(of, sketch)
    assert "input 'x': ignored, ones instead" in all_of(of, sketch)


def test_a_factor_comes_before_the_last_rounding():
    for name in ("linear", "silu", "added"):
        of = operator(name)
        reference, inputs = sketch_of(of)
        sketch = TypedGraph.of(written_out(reference), inputs)
        graph = all_of(of, sketch)[f"output 'out0': scaled by {SCALE}"].build()
        right = results(sketch.graph, inputs, double=True)[0]
        assert torch.allclose(results(graph, inputs, double=True)[0], right * SCALE)
        assert not torch.equal(results(graph, inputs)[0], results(sketch.graph, inputs)[0])


def test_what_is_only_moved_is_never_rounded():
    of = operator("copy")
    sketch, _ = sketch_of(of)
    assert last_rounding(sketch, 0) is None
    assert all_of(of, sketch)[f"output 'out0': scaled by {SCALE}"].build() is None


def test_float8_loses_small_values_and_is_scaled_by_more():
    of = operator("quantised")
    lost, inputs = mutant_of("output 'out0': small values of a row lost", of=of)
    right = results(sketch_of(of)[0].graph, inputs)[0].float()
    small = right.abs() < 26
    assert small.any() and not lost().float()[small].any()
    assert torch.equal(lost().float()[right.abs() > 28], right[right.abs() > 28])
    assert f"output 'out0': scaled by {FLOAT8_SCALE}" in all_of(of, sketch_of(of)[0])
    other = operator("silu")
    assert "output 'out0': small values of a row lost" not in all_of(other, sketch_of(other)[0])
