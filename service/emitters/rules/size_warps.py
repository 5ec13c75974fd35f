"""Warps by the size of the tile, in place of one number for all shapes."""

import ast
import random
from collections.abc import Iterable
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import RewritableKernel, kernels
from service.emitters.rules.patterns import calls, set_keyword, text
from service.operators.sources import LaunchSite

ELEMENTS_PER_WARP = (256, 512, 1024)
"""8 to 32 elements per thread to start from; `tune` varies the number."""

MAX_WARPS = 32
"""Warps of the largest thread block: 1024 threads (CUDA C++ Programming Guide, compute capabilities)."""


@dataclass(frozen=True)
class SizedLaunch:
    """A launch whose tile's extent depends on the shape."""

    kernel: RewritableKernel
    launch: LaunchSite
    block: str


class SizeWarps(Rule[SizedLaunch]):
    """A short row needs few warps, a long one many; an operator meets both."""

    name = "size_warps"
    meaning = "choose the number of warps by the size of the tile"

    def sites(self, module: ast.Module) -> Iterable[SizedLaunch]:
        """Find launches with a fixed number of warps and a tile that grows with the shape."""
        for kernel in kernels(module):
            tiles = {text(call.args[-1]) for call in calls(kernel.function, "tl.arange")} & kernel.constexprs
            launches = [launch for launch in kernel.launches if not _is_sized(launch)]
            pairs = [(launch, name) for launch in launches for name in sorted(tiles)]
            yield from (SizedLaunch(kernel, *pair) for pair in pairs if _grows(kernel, *pair))

    def change(self, site: SizedLaunch, rng: random.Random) -> None:
        """Write the number of warps in terms of the tile."""
        block, per_warp = site.kernel.name_argument(site.launch, site.block), rng.choice(ELEMENTS_PER_WARP)
        set_keyword(site.launch.call, "num_warps", f"max(1, min({MAX_WARPS}, {block} // {per_warp}))")


def _is_sized(launch: LaunchSite) -> bool:
    warps = launch.keywords.get("num_warps")
    return warps is not None and not isinstance(warps.value, ast.Constant)


def _grows(kernel: RewritableKernel, launch: LaunchSite, tile: str) -> bool:
    """Return True if the shape decides a tile's extent."""
    return bool(calls(kernel.value(launch, tile), "triton.next_power_of_2"))
