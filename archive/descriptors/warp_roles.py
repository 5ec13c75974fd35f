"""Roles of the warps of a program."""

from archive.descriptors.base import Descriptor


class WarpRoles(Descriptor):
    """Division of labour between warps. Bins: all warps do the same, some load and others compute."""

    name = "warp_roles"
    unit = ""
    meaning = "all warps do the same, or some load and others compute"
    choices = ("same", "specialised")
    edges = (1,)
    labels = ("same", "specialised")
