"""A grid of one axis in place of one of two."""

import ast
import random
from collections.abc import Iterable

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import RewritableKernel, grid, kernels, set_grid
from service.emitters.rules.patterns import calls, expression, replace, text
from service.emitters.rules.tiles import tie_tiles

PROGRAM = "tl.program_id(0)"


class FlatGrid(Rule[RewritableKernel]):
    """By itself it changes little; it makes a two-axis kernel usable for the rules that share out the work."""

    name = "flat_grid"
    meaning = "number the programs of a two-axis grid along one axis"

    def sites(self, module: ast.Module) -> Iterable[RewritableKernel]:
        """Find kernels with a two-axis grid."""
        return (site for site in kernels(module) if all(len(grid(launch) or []) == 2 for launch in site.launches))

    def change(self, site: RewritableKernel, rng: random.Random) -> None:
        """Compute the two numbers from one, in the order in which the device counts: axis 0 runs fastest."""
        tie_tiles(site)
        extents = {launch: [text(extent) for extent in grid(launch) or []] for launch in site.launches}
        width = site.add_parameter("grid_width", lambda launch: extents[launch][0])
        codes = {
            "tl.program_id(0)": f"{PROGRAM} % {width}",
            "tl.program_id(1)": f"{PROGRAM} // {width}",
            "tl.num_programs(0)": width,
            "tl.num_programs(1)": f"tl.num_programs(0) // {width}",
        }
        for call in calls(site.function, "tl.program_id", "tl.num_programs"):
            replace(site.function, call, expression(codes[text(call)]))
        for launch, (first, second) in extents.items():
            set_grid(launch, [f"({first}) * ({second})"])
