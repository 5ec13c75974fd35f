"""Programs of a two-axis grid in groups, so that neighbours in time share what they load."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import RewritableKernel, grid, kernels
from service.emitters.rules.patterns import calls, expression, replace, statements, text, unused

ASKED = ("tl.program_id(0)", "tl.program_id(1)")
GROUPS = (4, 8, 16)
"""Tiles per group to start from; `tune` varies the number."""


class GroupPrograms(Rule[RewritableKernel]):
    """Tiles of one band of the result share operands in the L2 cache."""

    name = "group_programs"
    meaning = "visit the tiles of a two-axis grid in groups"

    def sites(self, module: ast.Module) -> Iterable[RewritableKernel]:
        """Find kernels with a two-axis grid that ask for both axes and for nothing else about the grid."""
        return (
            kernel
            for kernel in kernels(module)
            if all(len(grid(launch) or []) == 2 for launch in kernel.launches)
            and {text(call) for call in calls(kernel.function, "tl.program_id")} == set(ASKED)
            and not calls(kernel.function, "tl.num_programs", "tl.swizzle2d")
        )

    def change(self, site: RewritableKernel, rng: random.Random) -> None:
        """Group some number of tiles."""
        self.group(site, rng.choice(GROUPS))

    def group(self, site: RewritableKernel, size: int) -> None:
        """Permute the two numbers at the top of the kernel; a group has `size` tiles along the second axis."""
        group = site.add_parameter("GROUP", lambda launch: str(size), constexpr=True)
        names = {asked: unused(f"program_{axis}", site.function) for axis, asked in enumerate(ASKED)}
        for call in calls(site.function, "tl.program_id"):
            replace(site.function, call, expression(names[text(call)]))
        inner, outer = (names[asked] for asked in ASKED)
        numbers = "tl.program_id(1), tl.program_id(0), tl.num_programs(1), tl.num_programs(0)"
        site.function.body[0:0] = statements(f"{outer}, {inner} = tl.swizzle2d({numbers}, {group})")
