"""A card that is not there is said to be missing; the rest needs one, and is tested in `tests/gpu`."""

import pytest
import torch

from workers.checker.card import CudaCard, _packed
from workers.errors import ToolMissing


def test_a_card_that_is_not_there():
    with pytest.raises(ToolMissing):
        CudaCard(99, {})


def test_tensors_are_packed_for_the_kernels():
    whole = torch.arange(64, dtype=torch.int16).reshape(8, 8)
    assert _packed(whole) is whole
    assert _packed(whole.T).is_contiguous()
    shifted = whole.view(-1)[1:9]
    assert shifted.data_ptr() % 16
    assert _packed(shifted).data_ptr() % 16 == 0
    assert torch.equal(_packed(shifted), shifted)
