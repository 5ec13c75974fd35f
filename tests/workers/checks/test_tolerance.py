"""Bounds grow with scale and with the native reference's error, and never fall below the dtype's roundoff."""

from dataclasses import replace

import torch

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks.tolerance import (
    IN_A_ROW,
    Errors,
    bounds_without_sensitivity,
    summation_roundoff,
    widen_by_sensitivity,
)


def _bounds(dtype, draw="normal"):
    evidence = gather(operator("rmsnorm", dtype), draw, 0, HONEST["rmsnorm"])
    return bounds_without_sensitivity(evidence, Errors.of(evidence, 0)), evidence


def test_a_narrower_dtype_may_miss_more():
    narrow, wide = _bounds("bfloat16")[0], _bounds("float32")[0]
    assert (narrow.rms > wide.rms).all() and (narrow.worst > wide.worst).all()


def test_bounds_are_positive_and_the_worst_element_may_miss_more_than_the_mean():
    bounds, _ = _bounds("bfloat16")
    assert (bounds.rms > 0).all() and (bounds.worst >= bounds.rms).all()


def test_sensitivity_only_widens():
    bounds, evidence = _bounds("float32", "shifted")
    wider = widen_by_sensitivity(bounds, evidence.reference.sensitivity[0])
    assert (wider.rms >= bounds.rms).all() and (wider.worst >= bounds.worst).all()


def test_errors_leave_out_what_is_not_finite():
    evidence = gather(operator("gelu"), "planted", 0, HONEST["gelu"])
    assert torch.isfinite(Errors.of(evidence, 0).error).all()


def test_a_sum_over_a_whole_input_is_not_one_chain():
    evidence = gather(operator("gelu"), "normal", 0, HONEST["gelu"])
    roundoff = torch.finfo(torch.float32).eps / 2
    for sizes, summands in (((64, 96), 64 * 96), ((4096, 32000), IN_A_ROW), ((2, 4 * IN_A_ROW), 4 * IN_A_ROW)):
        whole = replace(evidence, inputs=(torch.zeros(1).expand(sizes),), outputs=(torch.zeros(()),))
        assert summation_roundoff(whole) == roundoff * summands**0.5
