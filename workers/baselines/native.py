"""PyTorch's own single call for an operator of the catalogue, as a user would write it.

The references of the catalogue contain every step in float32, which is slow in eager mode. For attention the one call
is SDPA with one of its backends, each a baseline of its own, such as `sdpa_cudnn`: PyTorch's own choice among them is
not always the fastest. For other operators it is `native`. The gradients of an operator with `backward` are autograd's
gradients of that call.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TypeAlias

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from workers.baselines.module import Function, spread
from workers.baselines.training import both_ways
from workers.protocol import Operator

NATIVE = "native"
BACKENDS = {
    "sdpa_flash": SDPBackend.FLASH_ATTENTION,
    "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION,
    "sdpa_efficient": SDPBackend.EFFICIENT_ATTENTION,
}
"""Baselines of attention: SDPA with one backend. Its fourth one, `math`, takes the steps that `eager` takes."""
ATTENTIONS = {"attention", "decode_attention", "sliding_window_attention"}
"""Entries whose single call is `scaled_dot_product_attention`."""

Signature: TypeAlias = tuple[str, tuple[str, ...]]
"""An operator's entry and the names of its arguments: with other arguments it is another operator of the same name."""


def signature_of(operator: Operator) -> Signature:
    """Return the signature of an operator, which is the same with and without gradients; `?` marks optional inputs."""
    inputs = (f"{item.name}?" if item.optional else item.name for item in operator.inputs)
    return operator.entry, (*inputs, *(item.name for item in operator.scalars))


def natives_of(operator: Operator, dims: Mapping[str, int]) -> dict[str, Function]:
    """Return the functions for a shape by the baseline's name; empty if PyTorch has no such function."""
    found = _FUNCTIONS.get(signature_of(operator))
    if found is None:
        return {}
    scalars = operator.scalar_values(dims)

    def once(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (found(*inputs, *scalars),)

    calls: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {NATIVE: once}
    if operator.entry in ATTENTIONS:
        calls = {name: partial(_pinned, backend, once) for name, backend in BACKENDS.items()}
    return {name: both_ways(call, operator) if operator.backward else spread(call) for name, call in calls.items()}


def _pinned(
    backend: SDPBackend, call: Callable[..., tuple[torch.Tensor, ...]], *inputs: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    with sdpa_kernel(backend):
        return call(*inputs)


@lru_cache(1)
def _band(positions: int, window: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the mask that SDPA adds: 0 where a position sees another, at most a window before it, and -inf elsewhere.

    It is made once per shape, before any timing, as a user would make it once per model.
    """
    seen = torch.ones((positions, positions), dtype=torch.bool, device=device).tril().triu(1 - window)
    return torch.zeros((positions, positions), dtype=dtype, device=device).masked_fill_(~seen, float("-inf"))


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply matrices with a float32 result; on cards PyTorch takes 16-bit factors without a cast."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else torch.mm(a.float(), b.float())


_FUNCTIONS: dict[Signature, Callable[..., torch.Tensor]] = {
    ("rmsnorm", ("x", "weight")): lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
    # In the weights' dtype: on a card PyTorch takes a single dtype, and autocast uses float32 for this function too.
    ("layernorm", ("x", "weight", "bias")): lambda x, weight, bias: functional.layer_norm(
        x.to(weight.dtype), weight.shape, weight, bias, 1e-5
    ).to(x.dtype),
    ("argmax", ("logits",)): lambda logits: torch.argmax(logits, dim=-1),
    ("softmax", ("x",)): lambda x: functional.softmax(x, dim=-1),
    ("cross_entropy", ("logits", "target")): lambda logits, target: functional.cross_entropy(logits.float(), target),
    ("swiglu", ("gate", "up")): lambda gate, up: functional.silu(gate) * up,
    ("gelu", ("x",)): lambda x: functional.gelu(x, approximate="tanh"),
    ("gate_up_swiglu", ("x", "w_gate", "w_up")): lambda x, w_gate, w_up: (
        functional.silu(functional.linear(x, w_gate)) * functional.linear(x, w_up)
    ),
    ("linear_cross_entropy", ("x", "weight", "target")): lambda x, weight, target: functional.cross_entropy(
        _product(x, weight.t()), target, reduction="none"
    ),
    ("decode_attention", ("q", "k", "v")): functional.scaled_dot_product_attention,
    ("sliding_window_attention", ("q", "k", "v", "window")): lambda q, k, v, window: (
        functional.scaled_dot_product_attention(q, k, v, attn_mask=_band(q.shape[-2], window, q.dtype, q.device))
    ),
    ("attention", ("q", "k", "v", "causal")): lambda q, k, v, causal: functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal
    ),
}
