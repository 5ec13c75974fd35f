"""What PyTorch itself offers for an operator of the catalogue, in one call: what a user would write.

The references of the catalogue spell every step out in float32, which is slow when it is run step by step. For the
attention operator the one call is known as SDPA, and that is the baseline's name; for others it is `native`. The
gradients of an operator with `backward` are autograd's of that call.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch.nn import functional

from workers.baselines.module import Function, Tensors
from workers.protocol import Operator

NATIVE, SDPA = "native", "sdpa"

Signature: TypeAlias = tuple[str, tuple[str, ...]]
"""An operator's entry and the names of its arguments: with others, it is another operator of the same name."""


def signature_of(operator: Operator) -> Signature:
    """What an operator of the catalogue is known by, with gradients or without."""
    return operator.entry, (*(item.name for item in operator.inputs), *(item.name for item in operator.scalars))


def native_of(operator: Operator) -> tuple[str, Function] | None:
    """The baseline's name and what it runs, or None if PyTorch has no such function."""
    name = SDPA if operator.entry == "attention" else NATIVE
    found = _FUNCTIONS.get(signature_of(operator))
    if found is None:
        return None
    scalars = tuple(scalar.value for scalar in operator.scalars)

    def forward(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return (found(*inputs, *scalars),)

    def both_ways(given: Tensors) -> tuple[torch.Tensor, ...]:
        *inputs, upstream = given
        leaves = [
            tensor.detach().requires_grad_(index in operator.differentiated) for index, tensor in enumerate(inputs)
        ]
        with torch.enable_grad():
            result = found(*leaves, *scalars)
        wanted = [leaves[index] for index in operator.differentiated]
        return result.detach(), *torch.autograd.grad(result, wanted, upstream)

    return name, both_ways if operator.backward else forward


_FUNCTIONS: dict[Signature, Callable[..., torch.Tensor]] = {
    ("rmsnorm", ("x", "weight")): lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
    # In the weights' dtype: PyTorch takes one dtype on a card, and autocast too goes to float32 for this function.
    ("layernorm", ("x", "weight", "bias")): lambda x, weight, bias: functional.layer_norm(
        x.to(weight.dtype), weight.shape, weight, bias, 1e-5
    ).to(x.dtype),
    ("softmax", ("x",)): lambda x: functional.softmax(x, dim=-1),
    ("cross_entropy", ("logits", "target")): lambda logits, target: functional.cross_entropy(logits.float(), target),
    ("swiglu", ("gate", "up")): lambda gate, up: functional.silu(gate) * up,
    ("gelu", ("x",)): lambda x: functional.gelu(x, approximate="tanh"),
    ("attention", ("q", "k", "v", "causal")): lambda q, k, v, causal: functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal
    ),
}
