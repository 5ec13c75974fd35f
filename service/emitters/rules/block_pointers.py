"""A box of a matrix loaded as a box, not as a tile of pointers."""

import ast
import random
from collections.abc import Iterable
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.boxes import Box, boxes
from service.emitters.rules.kernels import RewritableKernel, kernels
from service.emitters.rules.patterns import expression, replace


@dataclass(frozen=True)
class BoxedLoad:
    """A load of a kernel."""

    kernel: RewritableKernel
    box: Box


class BlockPointers(Rule[BoxedLoad]):
    """One address in place of one per element: fewer registers, and bounds that the compiler understands."""

    name = "block_pointers"
    meaning = "load a box of a matrix through a block pointer"
    offered_before = "3.8"

    def sites(self, module: ast.Module) -> Iterable[BoxedLoad]:
        """Find loads of boxes."""
        return (BoxedLoad(kernel, box) for kernel in kernels(module) for box in boxes(kernel))

    def change(self, site: BoxedLoad, rng: random.Random) -> None:
        """Write the load anew."""
        box = site.box
        shape, offsets, block = (f"({', '.join(pair)})" for pair in (box.shape, box.offsets, box.block))
        pointer = f"tl.make_block_ptr({box.base}, {shape}, ({box.stride}, 1), {offsets}, {block}, (1, 0))"
        load = f"tl.load({pointer}, boundary_check=(0, 1), padding_option='zero')"
        replace(site.kernel.function, box.load, expression(load))
