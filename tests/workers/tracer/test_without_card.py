"""Python that was written for a card runs without one, and computes the same."""

import pytest
import torch

from workers.tracer.without_card import CARD, without_card


@pytest.mark.parametrize(
    "expression",
    [
        "torch.ones(2, device='cuda')",
        "torch.ones(2, device=torch.device('cuda', 1))",
        "torch.ones(2).cuda()",
        "torch.ones(2).to('cuda:0')",
        "torch.ones(2, dtype=torch.float64).to('cuda', torch.float32)",
        "torch.ones(2).to(device='cuda', non_blocking=True)",
        "torch.tensor([1.0, 1.0], device='cuda')",
        "torch.zeros(2).pin_memory() + 1",
        "torch.empty_like(torch.ones(2), device='cuda').fill_(1)",
        "torch.nn.Linear(2, 2, device='cuda').cuda().weight.detach()[0] * 0 + 1",
    ],
)
def test_a_tensor_for_a_card_is_made_where_all_others_are(expression: str) -> None:
    with without_card():
        made = eval(expression, {"torch": torch})
    assert made.device.type == "cpu" and made.dtype == torch.float32 and made.tolist() == [1.0, 1.0]


def test_other_devices_are_kept() -> None:
    with torch.device("meta"), without_card():
        assert torch.ones(2, device="cuda").is_meta and not torch.ones(2, device="cpu").is_meta


def test_nothing_is_compiled() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    before = torch.compile, torch.jit.script
    with without_card():
        assert torch.compile(doubled) is torch.jit.script(doubled) is torch.compile(dynamic=True)(doubled) is doubled
    assert (torch.compile, torch.jit.script) == before


def test_mixed_precision_for_a_card_shows_itself() -> None:
    with without_card(), torch.autocast(CARD, dtype=torch.bfloat16):
        assert torch.is_autocast_enabled(CARD)
    assert not torch.is_autocast_enabled(CARD)
