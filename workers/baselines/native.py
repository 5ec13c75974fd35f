"""What PyTorch itself offers for an operator of the catalogue, in one call: what a user would write.

The references of the catalogue spell every step out in float32, which is slow when it is run step by step. For the
attention operator the one call is known as SDPA, and that is the baseline's name; for others it is `native`.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch.nn import functional

from workers.baselines.module import Function, Tensors
from workers.protocol import Operator

NATIVE, SDPA = "native", "sdpa"

Signature: TypeAlias = tuple[str, tuple[str, ...]]
"""An operator's name and the names of its arguments: with others, it is another operator of the same name."""


def signature_of(operator: Operator) -> Signature:
    """What an operator of the catalogue is known by."""
    return operator.name, (*(item.name for item in operator.inputs), *(item.name for item in operator.scalars))


def native_of(operator: Operator) -> tuple[str, Function] | None:
    """The baseline's name and what it runs, or None if PyTorch has no such function."""
    name = SDPA if operator.name == "attention" else NATIVE
    found = _FUNCTIONS.get(signature_of(operator))
    if found is None:
        return None
    scalars = tuple(scalar.value for scalar in operator.scalars)

    def function(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return (found(*inputs, *scalars),)

    return name, function


_FUNCTIONS: dict[Signature, Callable[..., torch.Tensor]] = {
    ("rmsnorm", ("x", "weight")): lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
    ("layernorm", ("x", "weight", "bias")): lambda x, weight, bias: functional.layer_norm(
        x, weight.shape, weight, bias, 1e-5
    ),
    ("softmax", ("x",)): lambda x: functional.softmax(x, dim=-1),
    ("cross_entropy", ("logits", "target")): lambda logits, target: functional.cross_entropy(logits.float(), target),
    ("swiglu", ("gate", "up")): lambda gate, up: functional.silu(gate) * up,
    ("gelu", ("x",)): lambda x: functional.gelu(x, approximate="tanh"),
    ("attention", ("q", "k", "v", "causal")): lambda q, k, v, causal: functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal
    ),
}
