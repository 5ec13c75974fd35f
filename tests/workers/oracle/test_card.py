"""A card that is not there is said to be missing; the rest needs one, and is tested in `tests/gpu`."""

import pytest
import torch

from workers.errors import ToolMissing
from workers.oracle.card import CudaOracleCard, _measurable, _packed
from workers.oracle.compilation import MEASURED


def test_a_card_that_is_not_there():
    with pytest.raises(ToolMissing):
        CudaOracleCard(99, {})


def test_tensors_are_packed_for_the_kernels():
    whole = torch.arange(64, dtype=torch.int16).reshape(8, 8)
    assert _packed(whole) is whole
    assert _packed(whole.T).is_contiguous()
    shifted = whole.view(-1)[1:9]
    assert shifted.data_ptr() % 16
    assert _packed(shifted).data_ptr() % 16 == 0
    assert torch.equal(_packed(shifted), shifted)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8_is_measured_without_loss(dtype):
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    seen = _measurable(every)
    assert str(seen.dtype).removeprefix("torch.") in MEASURED
    torch.testing.assert_close(seen.float(), every.float(), rtol=0, atol=0, equal_nan=True)


def test_wider_outputs_are_measured_as_they_are():
    whole = torch.ones(4, dtype=torch.bfloat16)
    assert _measurable(whole) is whole
