"""Operations that are written out: equal to PyTorch's, and total."""

import pytest
import torch

from workers.tracer.written_out import WRITTEN_OUT

REPEAT = torch.ops.aten.repeat_interleave.Tensor


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("counts", [[3, 0, 0, 2, 1], [0, 6], [6, 0], [1] * 6])
def test_segments_repeat_as_pytorch_repeats_them(counts: list[int], dtype: torch.dtype) -> None:
    repeats = torch.tensor(counts, dtype=dtype)
    found = WRITTEN_OUT[REPEAT](repeats, output_size=6)
    assert found.dtype == dtype and torch.equal(found, REPEAT(repeats, output_size=6))


def test_counts_that_do_not_add_up_raise_nothing() -> None:
    assert WRITTEN_OUT[REPEAT](torch.tensor([1, 1]), output_size=4).tolist() == [0, 1, 1, 1]
    assert WRITTEN_OUT[REPEAT](torch.tensor([1, 1])) is NotImplemented


def test_of_equal_values_the_first_come_first() -> None:
    values = torch.tensor([[1.0, 3.0, torch.nan, 3.0], [2.0, 2.0, 2.0, 2.0]])
    found, places = WRITTEN_OUT[torch.ops.aten.topk.default](values, 3)
    assert places.tolist() == [[2, 1, 3], [0, 1, 2]] and found[0, 1:].tolist() == [3.0, 3.0]
    assert WRITTEN_OUT[torch.ops.aten.topk.default](values, 2, 1, False)[1].tolist() == [[0, 1], [0, 1]]
    assert WRITTEN_OUT[torch.ops.aten.sort.default](values)[1].tolist() == [[0, 1, 3, 2], [0, 1, 2, 3]]
