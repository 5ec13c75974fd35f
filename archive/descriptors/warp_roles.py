"""Roles of the warps of a program."""

from collections.abc import Mapping
from typing import Any

from archive.descriptors.base import Descriptor, choice


class WarpRoles(Descriptor):
    """Division of labour between warps. Bins: all warps do the same, some load and others compute."""

    name = "warp_roles"
    unit = ""
    meaning = "all warps do the same, or some load and others compute"
    needs = ("warp_roles",)
    edges = (1,)
    labels = ("same", "specialised")

    def value(self, readings: Mapping[str, Any]) -> float | None:
        """Return its position in the order of the bins."""
        return choice(readings, "warp_roles", ("same", "specialised"))
