"""Values lose what TF32 lacks, towards zero or to the nearest, and no more."""

import torch

from workers.tf32 import cut_to_tf32, round_to_tf32

VALUES = torch.tensor([1.0 + 2.0**-11, -1.0 - 3 * 2.0**-11, 1.0 + 2.0**-12, float("inf"), float("nan"), 3.4e38])


def test_cut_values_are_nearer_to_zero_and_rounded_ones_nearest():
    cut, near = cut_to_tf32(VALUES), round_to_tf32(VALUES)
    assert cut[:3].tolist() == [1.0, -1.0 - 2.0**-10, 1.0]
    assert near[:3].tolist() == [1.0 + 2.0**-10, -1.0 - 2.0**-9, 1.0]
    assert cut[3].isinf() and near[3].isinf() and cut[4].isnan() and near[4].isnan() and near[5].isfinite()


def test_other_dtypes_stay():
    wide = VALUES[:3].double()
    assert cut_to_tf32(wide) is wide and round_to_tf32(wide) is wide
