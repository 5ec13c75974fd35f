"""Generate the kernels in Helion for a card that is not there, and print their names. In a process of its own.

    python -m tests.workers.baselines.helion_generation

Helion's eager mode, which other tests use, accepts statements that its compiler refuses.
"""

import sys
from importlib import import_module

import torch
from torch._subclasses import fake_tensor

from workers.baselines import helion_kernels
from workers.baselines.helion import SETTINGS
from workers.inductor_seeds.lowering import forget_machine
from workers.targets import TARGETS
from workers.tracer.fake_device import DEVICE, pretend


def fake(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return a tensor of the card without memory."""
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
        tensor = torch.empty(sizes, dtype=dtype)
    assert isinstance(tensor, fake_tensor.FakeTensor)
    tensor.fake_device = DEVICE
    return tensor


def main() -> None:
    """Generate each kernel in its default configuration."""
    pretend(TARGETS["sm_90"])
    forget_machine()
    vars(fake_tensor)["init_gpu_context"] = lambda device: None  # It would open the card.
    square, heads = fake(512, 512), fake(1, 2, 512, 64)
    arguments = {
        "rmsnorm": (square, fake(512)),
        "layernorm": (square, fake(512), fake(512)),
        "softmax": (square,),
        "swiglu": (square, square),
        "row_losses": (square, fake(512, dtype=torch.int64)),
        "matmul": (square, square),
        "gate_up_swiglu": (square, square, square),
        "attention": (heads, heads, heads, True),
    }
    package = import_module("helion")
    for name, given in arguments.items():
        bound = package.kernel(getattr(helion_kernels, name), **SETTINGS).bind(given)
        compile(bound.to_triton_code(bound.config_spec.default_config()), name, "exec")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
