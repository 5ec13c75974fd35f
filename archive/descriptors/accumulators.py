"""Place of the sums of matrix instructions."""

from archive.descriptors.base import Descriptor


class Accumulators(Descriptor):
    """Place where matrix instructions add up. Bins: none, registers, the tensor memory that sm_100 introduced."""

    name = "accumulators"
    unit = ""
    meaning = "where matrix instructions add up: registers or tensor memory"
    choices = ("none", "registers", "tensor_memory")
    edges = (1, 2)
    labels = ("none", "registers", "tensor memory")
