"""Number of programs per SM."""

from archive.descriptors.base import Descriptor


class ProgramsPerSm(Descriptor):
    """Grid size divided by the number of SMs.

    Edges: powers of two. Under 1 some SMs stay idle; persistent grids are at 1; an SM holds at most 32 programs
    (CUDA programming guide, compute capabilities table), so from 32 on there is always a second wave.
    """

    name = "programs_per_sm"
    unit = "programs an SM"
    meaning = "grid size over the chip: idle SMs, one wave, or many"
    edges = (1, 2, 4, 8, 16, 32, 64)
    labels = ("under 1", "1", "2-3", "4-7", "8-15", "16-31", "32-63", "64 or more")
