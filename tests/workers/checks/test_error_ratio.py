"""Errors are held against those of honest arithmetic: noise of the dtype passes, a factor does not."""

import torch

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks import CHECKS
from workers.protocol import Outcome

CHECK = CHECKS["error_ratio"]


def _after(change, dtype="bfloat16"):
    return CHECK.examine(gather(operator("rmsnorm", dtype), "normal", 0, lambda *a: change(HONEST["rmsnorm"](*a))))


def test_an_honest_kernel_is_far_from_the_border():
    assert _after(lambda y: y).worst < 1


def test_zeros_are_wrong():
    assert _after(torch.zeros_like).outcome is Outcome.WRONG_RESULT


def test_a_factor_of_a_thousandth_shows_in_float32():
    assert _after(lambda y: y * 1.001, "float32").outcome in (Outcome.WRONG_RESULT, Outcome.PRECISION)


def test_results_rounded_to_half_show_in_float32():
    assert _after(lambda y: y.half().float(), "float32").outcome in (Outcome.WRONG_RESULT, Outcome.PRECISION)


def test_larger_errors_measure_worse():
    worst = [_after(lambda y, e=e: y * (1 + e), "float32").worst for e in (0.0, 1e-3, 1e-2, 1e-1)]
    assert worst == sorted(worst)


def test_equal_errors_all_over_a_row_are_named_too():
    def off(x):
        result = HONEST["gelu"](x)
        level = (x == x[:, :1]).all(1)
        result[level] = result[level] * 1.02
        return result

    findings = [CHECK.examine(gather(operator("gelu"), "structured", seed, off, M=16, N=129)) for seed in (2, 3)]
    assert all(finding.outcome is Outcome.PRECISION and "129 of" in finding.reason for finding in findings)
