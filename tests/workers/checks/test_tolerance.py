"""Bounds grow with scale and with the native reference's error, and never fall below the dtype's roundoff."""

from dataclasses import replace

import pytest
import torch

from tests.workers.checks.cases import HONEST, gather, operator
from workers.checks.tolerance import (
    IN_A_ROW,
    RowErrors,
    bounds_without_sensitivity,
    is_finite,
    leeway,
    rms,
    summation_roundoff,
    widen_by_sensitivity,
)


def _bounds(dtype, draw="normal"):
    evidence = gather(operator("rmsnorm", dtype), draw, 0, HONEST["rmsnorm"])
    return bounds_without_sensitivity(evidence, RowErrors.of(evidence, 0)), evidence


def test_a_narrower_dtype_may_miss_more():
    narrow, wide = _bounds("bfloat16")[0], _bounds("float32")[0]
    assert (narrow.rms > wide.rms).all() and (narrow.worst > wide.worst).all()


def test_float8_may_miss_no_more_than_what_it_is_rounded_from():
    reference = operator("rmsnorm")
    narrow = reference.model_copy(
        update={
            "reference": reference.reference.replace(".to(x.dtype)", ".to(torch.float8_e4m3fn)"),
            "outputs": tuple(each.model_copy(update={"dtype": "float8_e4m3fn"}) for each in reference.outputs),
        }
    )
    evidence = gather(narrow, "normal", 0, lambda x, w: HONEST["rmsnorm"](x.float(), w.float()).to(torch.float8_e4m3fn))
    errors, bounds = RowErrors.of(evidence, 0), bounds_without_sensitivity(evidence, RowErrors.of(evidence, 0))
    half = _bounds("bfloat16")[0]
    torch.testing.assert_close(bounds.rms, 2 * 2**-8 * rms(errors.value))
    assert bounds.own == half.own and (bounds.worst <= half.worst).all()
    assert errors.error.abs().max() < 1e-4 < (evidence.outputs[0].double() - evidence.reference.expected[0]).abs().max()
    assert not RowErrors.to_average(evidence, 0).error.any(), "what the rounding makes leans, and is nobody's concern"


def test_bounds_are_positive_and_the_worst_element_may_miss_more_than_the_mean():
    bounds, _ = _bounds("bfloat16")
    assert (bounds.rms > 0).all() and (bounds.worst >= bounds.rms).all()


def test_sensitivity_only_widens():
    bounds, evidence = _bounds("float32", "shifted")
    wider = widen_by_sensitivity(bounds, evidence.reference.sensitivity[0])
    assert (wider.rms >= bounds.rms).all() and (wider.worst >= bounds.worst).all()


def test_few_elements_may_miss_what_inputs_rounded_once_more_move_on_timed_content():
    bounds, evidence = _bounds("bfloat16", "normal")
    moved = torch.zeros_like(evidence.reference.expected[0])
    moved[3, 5] = 2 * bounds.worst[3].item()
    few = leeway(bounds, moved)
    assert few.worst[3] == 4 * 2 and few.worst[4] == 1
    assert few.rms[3].item() == pytest.approx(4 * 2 * bounds.worst[3].item() / bounds.rms[3].item() / 96**0.5)
    assert few.rms[4] == 1


def test_errors_leave_out_what_is_not_finite():
    evidence = gather(operator("gelu"), "planted", 0, HONEST["gelu"])
    errors = RowErrors.of(evidence, 0)
    assert not errors.complete
    assert all(torch.isfinite(each).all() for each in (errors.error, errors.native, errors.value))


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_one_odd_value_costs_its_own_place_alone(odd):
    evidence = gather(operator("rmsnorm"), "normal", 0, HONEST["rmsnorm"])
    got = evidence.outputs[0].clone()
    got[3, 5] = odd
    whole, holed = RowErrors.of(evidence, 0), RowErrors.of(replace(evidence, outputs=(got,)), 0)
    assert (whole.complete, holed.complete) == (True, False)
    for one, other in ((whole.error, holed.error), (whole.native, holed.native), (whole.value, holed.value)):
        assert other[3, 5] == 0
        assert (one != other).sum() <= 1, "all others are what they were"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_what_is_finite(dtype):
    values = torch.tensor([0.0, -1.0, 2.0, 240.0]).to(dtype)
    assert is_finite(values) and is_finite(values, torch.empty(0)) and is_finite()
    assert not is_finite(values, torch.tensor([1.0, torch.nan]).to(dtype))
    assert not is_finite(torch.tensor([torch.finfo(torch.float64).max, -torch.inf]), values)


def test_a_row_s_root_mean_square():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 1e-30]], dtype=torch.float64)
    assert rms(rows).flatten().tolist() == pytest.approx([12.5**0.5, 0.0, 1e-30], rel=1e-12, abs=0.0)


def test_a_sum_over_a_whole_input_is_not_one_chain():
    evidence = gather(operator("gelu"), "normal", 0, HONEST["gelu"])
    roundoff = torch.finfo(torch.float32).eps / 2
    for sizes, summands in (((64, 96), 64 * 96), ((4096, 32000), IN_A_ROW), ((2, 4 * IN_A_ROW), 4 * IN_A_ROW)):
        whole = replace(evidence, inputs=(torch.zeros(1).expand(sizes),), outputs=(torch.zeros(()),))
        assert summation_roundoff(whole) == roundoff * summands**0.5
