"""liger-kernel's version of an operator of the catalogue, if it has one that computes the same.

The package is optional. Its forward passes are called as a user calls them, with one exception: its cross entropy
counts the targets on the host, so its kernel is launched directly, with the count passed in (docs/decisions/0009).
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from triton import next_power_of_2

from workers.baselines.module import Function, Tensors
from workers.baselines.native import Signature, signature_of
from workers.protocol import Operator

LIGER = "liger"
PACKAGE = "liger_kernel"
CROSS_ENTROPY_WARPS = 32
"""Warps per program of its cross entropy, on Hopper and before (its ops/cross_entropy.py)."""
CROSS_ENTROPY_WARPS_BLACKWELL = 8
"""The same on Blackwell, for narrow dtypes."""
IGNORED = -100
"""The target that its cross entropy leaves out; PyTorch's default, and not a class index."""

DIFFERS = {
    "gelu": "its GELU is part of a gated product of two inputs",
    "rope": "it turns keys with the queries, in place, and reads one half of each table of angles",
}
"""Operators of the catalogue with a similar function in the package, and the difference."""
OVERWRITES = "only its forward passes are compared: its SwiGLU's backward pass overwrites the inputs, which calls share"
"""Reason why it is not compared on operators with gradients."""


def liger_of(operator: Operator) -> Function | str:
    """Return the package's function for an operator, or the reason why there is none."""
    found = _FUNCTIONS.get(signature_of(operator))
    if found is None:
        return DIFFERS.get(operator.entry, "liger-kernel has no such operator")
    if operator.backward:
        return OVERWRITES
    if find_spec(PACKAGE) is None:
        return "liger-kernel is not installed"

    def function(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return (found(*inputs),)

    return function


def _rmsnorm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Call it with Gemma's casting, which multiplies by the weight in float32, as the catalogue's reference does."""
    y: torch.Tensor = _ops("rms_norm").LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "gemma", False)
    return y


def _layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = _ops("layer_norm").LigerLayerNormFunction.apply(x, weight, bias, 1e-5)
    return y


def _softmax(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = _ops("softmax").LigerSoftmaxFunction.apply(x)
    return y


def _swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = _ops("swiglu").LigerSiLUMulFunction.apply(gate, up)
    return y


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Run its forward pass for logits without gradients: losses cleared, one program per row, losses summed.

    Every target counts, so the count is the number of rows. Losses are float32, as the operator's result is.
    """
    rows, columns = logits.shape
    losses = torch.zeros(rows, dtype=torch.float32, device=logits.device)
    ops = _ops("cross_entropy")
    ops.liger_cross_entropy_kernel[(rows,)](
        X_ptr=logits,
        X_stride=logits.stride(0),
        Y_ptr=target,
        Y_stride=target.stride(0),
        weight_ptr=None,
        loss_ptr=losses,
        z_loss_ptr=None,
        loss_stride=1,
        token_accuracy_ptr=None,
        token_accuracy_stride=0,
        predicted_tokens_ptr=None,
        predicted_tokens_stride=0,
        n_cols=columns,
        n_non_ignore=rows,
        sum_non_ignore_weight=rows,
        weight_sum=0.0,
        ignore_index=IGNORED,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="mean",
        softcap=None,
        RETURN_Z_LOSS=False,
        RETURN_TOKEN_ACCURACY=False,
        RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=min(ops.MAX_FUSED_SIZE, next_power_of_2(columns)),
        HAS_WEIGHT=False,
        HAS_SOFTCAPPING=False,
        HAS_GRADIENTS=False,
        num_warps=_cross_entropy_warps(logits),
    )
    return losses.sum()


def _cross_entropy_warps(logits: torch.Tensor) -> int:
    blackwell = torch.cuda.get_device_capability(logits.device)[0] >= 10
    return CROSS_ENTROPY_WARPS_BLACKWELL if blackwell and logits.element_size() == 2 else CROSS_ENTROPY_WARPS


def _ops(module: str) -> ModuleType:
    return import_module(f"{PACKAGE}.ops.{module}")


_FUNCTIONS: dict[Signature, Callable[..., torch.Tensor]] = {
    ("rmsnorm", ("x", "weight")): _rmsnorm,
    ("layernorm", ("x", "weight", "bias")): _layernorm,
    ("softmax", ("x",)): _softmax,
    ("swiglu", ("gate", "up")): _swiglu,
    ("cross_entropy", ("logits", "target")): _cross_entropy,
}
