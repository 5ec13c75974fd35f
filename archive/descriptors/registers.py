"""Registers per thread."""

from archive.descriptors.base import Descriptor


class Registers(Descriptor):
    """Registers per thread, as the assembler allocated them.

    Edges: an SM has 65536 registers, which keep 2048 threads resident at up to 32 each, 1024 at 64, 682 at 96 and 512
    at 128 (CUDA programming guide, compute capabilities table).
    """

    name = "registers"
    unit = "registers a thread"
    meaning = "what a thread keeps at hand: a loop's few values or a whole row"
    edges = (33, 65, 97, 129)
    labels = ("up to 32", "33-64", "65-96", "97-128", "129 or more")
