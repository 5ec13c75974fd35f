"""Helion's version of an operator of the catalogue, tuned by its own tuner on the card that it is timed on.

The package is optional. Its wheel has no examples, so the kernels are ours: `workers.baselines.helion_kernels`.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from workers.baselines.client import EFFORT, TUNING_S
from workers.baselines.module import Function, Tensors
from workers.baselines.native import Signature, signature_of
from workers.gpu_lock import GpuLock
from workers.protocol import Operator

HELION = "helion"
"""Name of the baseline, and of the package."""
KERNELS = "workers.baselines.helion_kernels"
SETTINGS: dict[str, Any] = {
    "static_shapes": True,
    "autotune_effort": EFFORT,
    "autotune_budget_seconds": int(TUNING_S),
    "autotune_progress_bar": False,
    "autotune_log_level": 0,
    "autotune_benchmark_subprocess": False,
    "autotune_ignore_errors": True,
}
"""Settings of all kernels. It times in this process: inputs lie in memory that no other process can open. A
configuration that fails is passed over."""


def helion_of(operator: Operator, dims: Mapping[str, int], gpu_lock: GpuLock) -> Function | str:
    """Return a function that tunes itself at its first call, or the reason why there is none.

    Args:
        operator: The contract.
        dims: Sizes of the shape, for scalar arguments.
        gpu_lock: Lock of the card. Tuning takes it exclusively: work beside it would decide which kernel wins.
    """
    name = _KERNELS.get(signature_of(operator))
    if name is None or operator.backward:
        return "there is no kernel in Helion for it"
    if find_spec(HELION) is None:
        return "helion is not installed"
    kernel = import_module(HELION).kernel(getattr(import_module(KERNELS), name), **SETTINGS)
    scalars, tuned = operator.scalar_values(dims), list[bool]()

    def function(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad(), nullcontext() if tuned else gpu_lock.exclusive():
            result = kernel(*inputs, *scalars)
        tuned[:] = [True]
        return (result.mean() if name == ROW_LOSSES else result,)

    return function


ROW_LOSSES = "row_losses"
"""Kernel of losses per row, which PyTorch averages."""
_KERNELS: Mapping[Signature, str] = {
    ("rmsnorm", ("x", "weight")): "rmsnorm",
    ("layernorm", ("x", "weight", "bias")): "layernorm",
    ("softmax", ("x",)): "softmax",
    ("swiglu", ("gate", "up")): "swiglu",
    ("cross_entropy", ("logits", "target")): ROW_LOSSES,
    ("matmul", ("a", "b")): "matmul",
    ("gate_up_swiglu", ("x", "w_gate", "w_up")): "gate_up_swiglu",
    ("attention", ("q", "k", "v", "causal")): "attention",
}
