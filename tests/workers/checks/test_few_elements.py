"""One element may be right or wrong by luck: fresh draws decide, and refuse what is coarser than the reference."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest
import torch

from service.operators.catalogue import load_operator
from tests.workers.checks.cases import HONEST, Implementation, gather, graph_of, operator
from workers.checks import CHECKS, CheckEvidence, CheckResults, Expectation
from workers.checks.few_elements import POOLED, counts_losses, is_within_losses, pooled_ratio
from workers.inputs import draw
from workers.protocol import Operator, Outcome, Shape

ROOT = Path(__file__).parents[3]
MIXTURE, MODULATED = "operators/moe_swiglu", "benchmarks/published_kernels/038_modulated_rms_norm/operator"
TERMS, SINGLE = Shape(dims={"D": 1, "E": 1, "I": 1024, "K": 1, "M": 1}), Shape(dims={"M": 1, "N": 1})
"""One result, a sum of 1,024 terms; one result of one normed value."""
BLOCK = 16
"""Terms that are added up before a sum is rounded to bfloat16."""


@cache
def spec(folder: str) -> Operator:
    return load_operator(str(ROOT / folder))


def half(values: torch.Tensor) -> torch.Tensor:
    return values.bfloat16().float()


def mixture(gate_weight, up_weight, down_weight, x, expert, share, *, short=False, coarse=False):
    """One expert for one token of one value, as kernels compute it: hidden values are rounded, products are not.

    Args:
        gate_weight: Weights, like those that follow.
        up_weight: Weights.
        down_weight: Weights.
        x: The value.
        expert: The choice of the only expert.
        share: Its share.
        short: Round sums to bfloat16.
        coarse: Round everything to bfloat16.
    """
    cut = half if coarse else torch.clone
    gate, up = (cut(weight[0, :, 0].float() * x[0, 0].float()) for weight in (gate_weight, up_weight))
    terms = cut(half(cut(cut(gate * torch.sigmoid(gate)) * up)) * down_weight[0, 0].float())
    total = torch.zeros(())
    for part in terms.split(BLOCK):
        total = total + part.sum()
        total = half(total) if short or coarse else total
    return (total * share[0, 0]).bfloat16().reshape(x.shape)


def modulated(x, weight, scale, shift):
    """As the published kernel does it: `1 + scale` is rounded, products are not."""
    wide = x.float()
    normal = half(wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6))
    return (normal * weight.float() * half(1 + scale.float()) + shift.float()).bfloat16()


def evidence(op: Operator, shape: Shape, name: str, seed: int, kernel: Implementation) -> CheckEvidence:
    inputs = draw(op, shape, name, seed)
    reference = Expectation(op, graph_of(op, shape), inputs, name)
    return CheckEvidence(op, shape, name, inputs, inputs, (kernel(*inputs),), reference)


def judge(op: Operator, shape: Shape, name: str, seed: int, kernel: Implementation) -> tuple[bool, Outcome | None]:
    """Return if a doubt was raised by a draw, and the outcome."""
    asked = []

    def fresh(check: str, count: int) -> Iterator[CheckEvidence]:
        asked.append(check)
        return (evidence(op, shape, name, 10**6 + number, kernel) for number in range(count))

    outcome = CheckResults(CHECKS).examine(evidence(op, shape, name, seed, kernel), fresh)
    return bool(asked), outcome


def unlucky(op: Operator, shape: Shape, name: str, kernel: Implementation) -> int:
    """Return the first seed by which one draw alone refuses a kernel."""
    check = CHECKS["error_ratio"]
    return next(seed for seed in range(400) if check.examine(evidence(op, shape, name, seed, kernel)).outcome)


@pytest.mark.parametrize(
    ("folder", "shape", "name", "kernel"),
    [(MIXTURE, TERMS, "lone", mixture), (MODULATED, SINGLE, "normal", modulated)],
)
def test_an_unlucky_draw_of_one_element_refuses_no_right_kernel(folder, shape, name, kernel):
    op = spec(folder)
    assert judge(op, shape, name, unlucky(op, shape, name, kernel), kernel) == (True, None)


@pytest.mark.parametrize("fault", ["short", "coarse"])
def test_sums_and_arithmetic_in_bfloat16_are_refused_as_before(fault):
    """By the same draws that refuse them one by one."""
    op, kernel = spec(MIXTURE), partial(mixture, **{fault: True})
    assert judge(op, TERMS, "lone", unlucky(op, TERMS, "lone", kernel), kernel)[1] is Outcome.PRECISION


def test_an_error_that_no_rounding_explains_is_final():
    op = spec(MIXTURE)

    def wrong(*inputs: torch.Tensor) -> torch.Tensor:
        return -mixture(*inputs)

    assert judge(op, TERMS, "normal", 0, wrong) == (False, Outcome.WRONG_RESULT)
    found = evidence(op, TERMS, "normal", 0, wrong)
    assert not CHECKS["error_ratio"].examine(found).doubtful and not is_within_losses(found, 0)


def test_a_reason_names_the_draws_that_decided():
    op, kernel = spec(MIXTURE), partial(mixture, coarse=True)
    observed = [evidence(op, TERMS, "normal", seed, kernel) for seed in range(POOLED)]
    check = CHECKS["error_ratio"]
    finding = check.decide(observed[-1], [check.observe(each) for each in observed])
    assert finding.outcome is Outcome.PRECISION and finding.worst > 1
    assert f"over {POOLED} draws ({TERMS.key}, normal inputs): the formula holds" in finding.reason


def test_many_elements_and_references_that_round_results_alone_are_decided_by_one_draw():
    op = spec(MODULATED)
    many = evidence(op, Shape(dims={"M": 2, "N": 16}), "normal", 0, modulated)
    few = evidence(op, Shape(dims={"M": 1, "N": 31}), "normal", 0, modulated)
    assert counts_losses(few, 0) and not counts_losses(many, 0)
    short = partial(mixture, short=True)
    doubt = evidence(spec(MIXTURE), TERMS, "lone", unlucky(spec(MIXTURE), TERMS, "lone", short), short)
    assert CHECKS["error_ratio"].examine(doubt).doubtful
    assert not CHECKS["error_ratio"].examine(replace(many, outputs=(many.outputs[0] * 1.5,))).doubtful
    single = gather(operator("rmsnorm"), "normal", 0, HONEST["rmsnorm"], M=1, N=1)
    assert not counts_losses(single, 0) and CHECKS["error_ratio"].observe(single) == ((),)


def test_draws_without_a_ratio_do_not_count_and_nothing_passes_by_them_alone():
    assert pooled_ratio([(), (1.3,), ()]) == pytest.approx(1.0) and pooled_ratio([(), ()]) > 1
