"""Float8 values for looking at: torch stores and converts them, and has little arithmetic for them."""

import torch


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """Float8 in float32, which holds every value of it; other tensors as they are."""
    return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor
