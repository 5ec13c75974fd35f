"""Complex numbers of a reference become pairs, with the same results."""

import sys

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from workers.inductor_seeds.complex_pairs import complex_pairs

A, B = torch.randn(5, 4, 2), torch.randn(4, 2)


def turned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(torch.view_as_complex(a) * torch.view_as_complex(b)[None])


def parts(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    made = torch.complex(a[..., 0], b[..., 1]) + torch.polar(a[..., 1].abs(), b[..., 0])
    return made.conj().imag * made.real - made.abs()


@pytest.mark.parametrize("function", [turned, parts])
def test_a_graph_has_real_numbers_alone(function) -> None:
    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with complex_pairs():
            return function(a, b)

    traced = make_fx(call, tracing_mode="fake")(A, B)
    values = [node.meta["val"] for node in traced.graph.nodes if "val" in node.meta]
    assert values and not any(value.is_complex() for value in values)
    assert torch.allclose(traced(A, B), function(A, B), atol=1e-6)


def test_without_torchs_pairs_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._subclasses.complex_tensor", None)
    with complex_pairs():
        assert torch.view_as_complex(A).is_complex()
