"""Agreement: another order of summation passes, a coarser or wrong function does not."""

from typing import Any

import pytest
import torch

from tests.workers.baselines.catalogue import OPERATORS
from workers.baselines import agreement
from workers.baselines.agreement import Disagrees, check, most_summands
from workers.protocol import Output

RMSNORM = OPERATORS["rmsnorm"]
LOSS = OPERATORS["cross_entropy"]
W4A16 = OPERATORS["w4a16_matmul"]
ROWS = torch.randn(64, 4096, generator=torch.Generator().manual_seed(3)).bfloat16()


def agree(operator, got, expected, summands):
    try:
        check(operator, [got], [expected], summands, lambda: [expected])
    except Disagrees:
        return False
    return True


def test_equal_values_agree_also_where_all_are_zero():
    assert agree(RMSNORM, ROWS, ROWS.clone(), summands=4096)
    assert agree(RMSNORM, torch.zeros(2, 3).bfloat16(), torch.zeros(2, 3).bfloat16(), summands=3)


def test_rows_are_held_against_each_other_part_by_part(monkeypatch):
    monkeypatch.setattr(agreement, "PART_ELEMENTS", 3 * 4096)
    assert agree(RMSNORM, ROWS, ROWS.clone(), summands=4096)
    for row in (0, 40, 63):
        wrong = ROWS.clone()
        wrong[row, 5] += 1
        assert not agree(RMSNORM, wrong, ROWS, summands=4096)
        wrong[row, 5] = float("nan")
        assert not agree(RMSNORM, wrong, ROWS, summands=4096)


def test_one_more_rounding_agrees():
    assert agree(RMSNORM, (ROWS.float() * (1 + 2**-8)).bfloat16(), ROWS, summands=4096)


def test_another_order_of_summation_agrees():
    values = torch.rand(1 << 20, generator=torch.Generator().manual_seed(3))
    assert agree(LOSS, values.sum(), values.flip(0).cumsum(0)[-1], summands=1 << 20)


@pytest.mark.parametrize(
    "wrong",
    [
        ROWS * 1.2,
        torch.where(torch.arange(4096) == 77, ROWS + 1, ROWS),
        torch.full_like(ROWS, float("nan")),
        torch.zeros_like(ROWS),
    ],
)
def test_wrong_values_disagree(wrong):
    with pytest.raises(Disagrees, match="times what rounding explains"):
        check(RMSNORM, [wrong], [ROWS], 4096, lambda: [ROWS])


def test_a_loss_in_bfloat16_disagrees_with_one_in_float32():
    loss = torch.tensor(10.8761)
    with pytest.raises(Disagrees, match="times what rounding explains"):
        check(LOSS, [loss.bfloat16().float()], [loss], 32000, lambda: [loss])
    tf32 = LOSS.model_copy(update={"precision": LOSS.precision.model_copy(update={"allow_tf32": True})})
    assert agree(tf32, loss.bfloat16().float(), loss, summands=32000)


@pytest.mark.parametrize("columns", [1, 2, 64])
def test_weights_rounded_or_not_agree_in_narrow_rows_and_a_group_left_out_does_not(columns):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(1024, 8, 128, generator=generator).bfloat16()
    codes = torch.randint(-(2**31), 2**31 - 1, (8, 16, columns), generator=generator, dtype=torch.int32)
    scales = torch.randn(8, columns, generator=generator).bfloat16()
    reference: dict[str, Any] = {}
    exec(W4A16.reference, reference)
    expected = reference["w4a16_matmul"](x, codes, scales)
    shifts = torch.arange(0, 32, 4, dtype=torch.int32).view(1, 1, 8, 1)
    unpacked = ((codes.unsqueeze(2) >> shifts) & 15).sub(8).double().flatten(1, 2)
    parts = torch.einsum("mgk,gkn->gmn", x.double(), unpacked) * scales.double().unsqueeze(1)
    exact = parts.sum(0).bfloat16()
    assert not torch.equal(exact, expected), "one rounds each weight, the other does not"
    assert agree(W4A16, exact, expected, summands=1024)
    assert not agree(W4A16, parts[1:].sum(0).bfloat16(), expected, summands=1024)


@pytest.mark.parametrize("other", [ROWS.float(), ROWS[:1]])
def test_another_dtype_or_shape_disagrees(other):
    with pytest.raises(Disagrees, match="the reference's"):
        check(RMSNORM, [other], [ROWS], 4096, lambda: [ROWS])


def test_results_are_counted():
    with pytest.raises(Disagrees, match="returns 2 results, the reference 1"):
        check(RMSNORM, [ROWS, ROWS], [ROWS], 4096, lambda: [ROWS])


def test_integers_must_be_equal():
    counting = RMSNORM.model_copy(update={"outputs": (Output(name="n", dtype="int64"),)})
    assert agree(counting, torch.arange(4), torch.arange(4), summands=4)
    with pytest.raises(Disagrees, match="'n' differs"):
        check(counting, [torch.arange(4)], [torch.arange(4).flip(0)], 4, tuple)


@pytest.mark.parametrize(
    ("shapes", "count"),
    [
        ([], 1),
        ([()], 1),
        ([(0, 8)], 8),
        ([(8192, 4096), (4096,)], 8192),
        ([(256, 524288), (524288, 256)], 524288),
        ([(16, 32, 8, 64, 64), (32, 64, 3, 5, 7), (64,)], 32 * 3 * 5 * 7),
    ],
)
def test_a_filter_of_many_axes_is_summed_over_all_but_its_longest(shapes, count):
    assert most_summands([torch.empty(shape, device="meta") for shape in shapes]) == count


def test_a_norm_that_makes_a_small_difference_large_may_do_so_to_roundoffs():
    op = RMSNORM.model_copy(update={"outputs": (Output(name="y", dtype="float32"),)})

    def centred(values):
        return (values - values.mean(1, keepdim=True)) / values.std(1, keepdim=True)

    values = 300 + torch.rand(64, 512, generator=torch.Generator().manual_seed(3))
    expected, got = centred(values), centred(values.double()).float()
    nudged = centred(values * (1 + 2**-22 * torch.randn(values.shape, generator=torch.Generator().manual_seed(4))))
    with pytest.raises(Disagrees):
        check(op, [got], [expected], 512, lambda: [expected])
    check(op, [got], [expected], 512, lambda: [nudged])
    with pytest.raises(Disagrees):
        check(op, [got * 1.01], [expected], 512, lambda: [nudged])


def test_where_a_threshold_leaves_few_elements_rows_may_differ_as_far_as_others_are_moved():
    """A row with one element just above the threshold has no scale, and a nudge may leave it where it is."""
    op = RMSNORM.model_copy(update={"outputs": (Output(name="y", dtype="float32"),)})
    expected = torch.zeros(4, 512)
    expected[0, 7], expected[1, 3] = 1e-5, 0.3
    got, nudged = expected.clone(), expected.clone()
    got[0, 7] += 2e-7
    nudged[1, 3] += 1e-7
    with pytest.raises(Disagrees):
        check(op, [got], [expected], 512, lambda: [expected])
    check(op, [got], [expected], 512, lambda: [nudged])
    got[0, 7] += 1e-4
    with pytest.raises(Disagrees):
        check(op, [got], [expected], 512, lambda: [nudged])
