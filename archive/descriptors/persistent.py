"""Scheduling of the work: by the grid, or by loops of persistent programs."""

from archive.descriptors.base import Descriptor


class Persistent(Descriptor):
    """True if programs loop over tiles. Bins: no, yes."""

    name = "persistent"
    unit = ""
    meaning = "whether programs stay resident and loop over tiles, or the hardware hands out one tile each"
    choices = (False, True)
    edges = (1,)
    labels = ("one tile a program", "persistent")
