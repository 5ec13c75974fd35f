"""A reference that rounds scores to float16 is a fair measure of kernels that round queries instead."""

import math
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest
import torch

from service.operators.catalogue import load_operator
from tests.gpu.contracts import operators
from tests.workers.checks.cases import graph_of, operator
from workers.checks import CHECKS, CheckEvidence, Expectation
from workers.checks.error_ratio import ROWS_POOLED
from workers.checks.nearby import NUDGES, losses_nearby, rounds_on_the_way
from workers.checks.results import CheckResults
from workers.checks.tolerance import RowErrors, bounds_without_sensitivity, rms
from workers.commands import TIMED
from workers.inputs import draw
from workers.protocol import Operator, Outcome, Shape

PUBLISHED = Path(__file__).parents[3] / "benchmarks" / "published_kernels"
SCALE = torch.tensor(0.125) * 1.44269504
RARE, OUTLYING = 4096, 16.0
"""One in this many timed values is an outlier, and its factor."""


@cache
def spec(folder: str) -> Operator:
    return load_operator(str(PUBLISHED / folder / "operator"))


def timed(op: Operator, shape: Shape, seed: int) -> tuple[torch.Tensor, ...]:
    """Values as timed content has them."""
    generator, found = torch.Generator().manual_seed(seed), []
    for item in op.given:
        size = op.input_shape(item, shape.dims)
        values = torch.randn(size, generator=generator)
        values[torch.rand(size, generator=generator) < 1 / RARE] *= OUTLYING
        high = item.high if isinstance(item.high, float) else math.inf
        found.append(values.clamp(item.low if item.low is not None else -math.inf, high).to(getattr(torch, item.dtype)))
    return tuple(found)


def one_bit_less(values: torch.Tensor) -> torch.Tensor:
    """Round float16 values to 10 bits instead of 11."""
    significand, exponent = torch.frexp(values.float())
    return torch.ldexp((significand * 2**10).round() / 2**10, exponent).half()


def flash(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, short: bool = False) -> torch.Tensor:
    """Causal attention in blocks of 64 keys; queries are scaled and rounded to float16, scores are not rounded."""
    scaled = (q.float() * SCALE).half()
    scaled = one_bit_less(scaled) if short else scaled
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    scores = (scaled.float() @ k.float().transpose(-1, -2)).masked_fill(later, -math.inf)
    most = torch.full((*q.shape[:-1], 1), -math.inf)
    total, sums = torch.zeros_like(most), torch.zeros(v.shape)
    for start in range(0, q.shape[2], 64):
        part = scores[..., start : start + 64]
        new = torch.maximum(most, part.amax(-1, keepdim=True))
        kept, weights = torch.exp2(most - new), torch.exp2(part - new)
        sums = sums * kept + weights.half().float() @ v[..., start : start + 64, :].float()
        total, most = total * kept + weights.sum(-1, keepdim=True), new
    return (sums / total).half()


def outcome(op: Operator, shape: Shape, name: str, inputs: tuple[torch.Tensor, ...], *, short: bool) -> Outcome | None:
    reference = Expectation(op, graph_of(op, shape), inputs, name)
    evidence = CheckEvidence(op, shape, name, inputs, inputs, (flash(*inputs, short=short),), reference)
    findings = (CHECKS[check].examine(evidence) for check in ("error_ratio", "bias"))
    return next((finding.outcome for finding in findings if finding.outcome is not None), None)


@pytest.mark.parametrize("seed", range(6))
def test_few_rows_in_which_the_reference_was_lucky_pass_on_timed_content(seed):
    op, shape = spec("120_attention"), Shape(dims={"B": 2, "H": 2})
    inputs = timed(op, shape, seed)
    assert outcome(op, shape, TIMED, inputs, short=False) is None
    assert outcome(op, shape, TIMED, inputs, short=True) is Outcome.PRECISION


def test_luck_decides_before_dearer_evaluations_are_made():
    op, shape = spec("120_attention"), Shape(dims={"B": 2, "H": 2})
    inputs = timed(op, shape, 0)
    reference = Expectation(op, graph_of(op, shape), inputs, TIMED)
    evidence = CheckEvidence(op, shape, TIMED, inputs, inputs, (flash(*inputs),), reference)
    errors = RowErrors.of(evidence, 0)
    assert (rms(errors.error) > bounds_without_sensitivity(evidence, errors).rms).any()
    assert CHECKS["error_ratio"].examine(evidence).outcome is None
    assert not {"sensitivity", "full_sensitivity", "coarse_sensitivity", "sequential_loss"} & vars(reference).keys()


def judge(seed: int, *, short: bool) -> tuple[list[int], CheckResults]:
    """Return how many draws decided, and the results, of timed content of one seed and, if in doubt, others."""
    op, shape, asked = spec("120_attention"), Shape(dims={"B": 1, "H": 1}), []

    def evidence(seed: int) -> CheckEvidence:
        inputs = timed(op, shape, seed)
        reference = Expectation(op, graph_of(op, shape), inputs, TIMED)
        return CheckEvidence(op, shape, TIMED, inputs, inputs, (flash(*inputs, short=short),), reference)

    def fresh(check: str, count: int) -> Iterator[CheckEvidence]:
        asked.append(count)
        return (evidence(10**6 + number) for number in range(count))

    check_results = CheckResults({"error_ratio": CHECKS["error_ratio"]})
    check_results.examine(evidence(seed), fresh)
    return asked, check_results


@pytest.mark.parametrize("seed", [56, 109])
def test_a_draw_with_more_lucky_rows_than_most_is_decided_by_others(seed):
    """Two of 150 draws refused a right kernel before."""
    asked, check_results = judge(seed, short=False)
    assert (asked, check_results.failure) == ([ROWS_POOLED], None)


def test_one_bit_less_is_refused_by_other_draws_where_one_leaves_a_doubt():
    failures = [results.failure for asked, results in map(partial(judge, short=True), range(8)) if asked]
    assert failures
    for failure in failures:
        assert failure is not None and failure.outcome is Outcome.PRECISION
        assert f"over {ROWS_POOLED} draws" in failure.reason


@pytest.mark.parametrize("seed", range(3))
def test_one_bit_less_shows_on_normal_values_as_before(seed):
    op, shape = spec("120_attention"), Shape(dims={"B": 2, "H": 2})
    inputs = draw(op, shape, "normal", seed)
    assert outcome(op, shape, "normal", inputs, short=False) is None
    assert outcome(op, shape, "normal", inputs, short=True) is Outcome.PRECISION


@pytest.mark.parametrize("name", [TIMED, "normal"])
def test_few_rows_of_coarse_arithmetic_show(name):
    """One row in 64 with queries in bfloat16: few, but no rounding of the reference is as large."""
    op, shape = spec("120_attention"), Shape(dims={"B": 2, "H": 2})
    for seed in range(3):
        inputs = timed(op, shape, seed) if name == TIMED else draw(op, shape, name, seed)
        q, k, v = inputs
        coarse = q.clone()
        coarse[:, :, ::64] = q[:, :, ::64].bfloat16().half()
        reference = Expectation(op, graph_of(op, shape), inputs, name)
        evidence = CheckEvidence(op, shape, name, inputs, inputs, (flash(coarse, k, v),), reference)
        assert CHECKS["error_ratio"].examine(evidence).outcome is Outcome.PRECISION


@pytest.mark.parametrize("name", ["normal", "heavy", "shifted"])
def test_rounded_queries_between_bounds_are_no_bias(name):
    """If values beyond the bounds of -1 and 1 were cut off in `heavy`, most would be rounded alike."""
    op, shape = spec("106_attention"), Shape(dims={"B": 1, "T": 2})
    for seed in range(3):
        assert outcome(op, shape, name, draw(op, shape, name, seed), short=False) is None


def test_one_bit_less_between_bounds_shows_as_before():
    op, shape = spec("106_attention"), Shape(dims={"B": 1, "T": 2})
    assert outcome(op, shape, "normal", draw(op, shape, "normal", 0), short=True) is Outcome.PRECISION


def test_losses_count_on_timed_content_of_references_that_round_on_the_way():
    op, shape = spec("120_attention"), Shape(dims={"B": 1, "H": 1})
    inputs, graph = timed(op, shape, 0), graph_of(op, shape)
    found = list(losses_nearby(Expectation(op, graph, inputs, TIMED), 0))
    native = Expectation(op, graph, inputs, TIMED)
    own = (native.native[0].double() - native.expected[0]).square().mean()
    assert len(found) == NUDGES and all(lost.square().mean() > own for lost in found)
    assert not list(losses_nearby(Expectation(op, graph, inputs, "normal"), 0))


@pytest.mark.parametrize("name", ["softmax", "attention", "matmul", "rmsnorm"])
def test_references_that_round_results_alone_have_no_such_losses(name):
    op = operator(name)
    shape = Shape(dims=op.shapes[0].dims)
    inputs, graph = draw(op, shape, "normal", 0), graph_of(op, shape)
    assert not rounds_on_the_way(graph, inputs)
    assert not list(losses_nearby(Expectation(op, graph, inputs, TIMED), 0))


def test_catalogue_attention_rounds_results_alone():
    op = operators()["attention"]
    shape = Shape(dims={"B": 1, "H": 1, "T": 16, "D": 64})
    assert not rounds_on_the_way(graph_of(op, shape), draw(op, shape, "normal", 0))
