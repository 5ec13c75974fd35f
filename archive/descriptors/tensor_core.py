"""The matrix unit."""

from archive.descriptors.base import Descriptor


class TensorCore(Descriptor):
    """Matrix instruction that the kernel uses. Bins: none, a warp's, a warp group's."""

    name = "tensor_core"
    unit = ""
    meaning = "which matrix instruction the kernel uses"
    choices = ("none", "mma", "wgmma")
    edges = (1, 2)
    labels = ("none", "mma", "wgmma")
