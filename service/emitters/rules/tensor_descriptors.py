"""A box of a matrix fetched by the tensor memory accelerator, where the matrix' rows are aligned for it."""

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.boxes import Box, boxes, is_plain
from service.emitters.rules.kernels import RewritableKernel, kernels
from service.emitters.rules.patterns import bodies, statements, text
from service.operators.sources import LaunchSite, walk

ALIGNMENT_BYTES = 16
"""Alignment of a tensor descriptor's addresses and strides; CUDA driver API, `cuTensorMapEncodeTiled`."""


@dataclass(frozen=True)
class DescriptorLoad:
    """A line of a kernel that loads a box, and the lines that it stands among."""

    kernel: RewritableKernel
    box: Box
    body: list[ast.stmt]
    line: ast.Assign


class TensorDescriptors(Rule[DescriptorLoad]):
    """One instruction of one thread moves a whole tile. Each launch decides if the rows are aligned."""

    name = "tensor_descriptors"
    meaning = "fetch a box of a matrix through a tensor descriptor where its rows are aligned"

    def sites(self, module: ast.Module) -> Iterable[DescriptorLoad]:
        """Find lines that do nothing but load a box of a matrix that a parameter points to."""
        return (site for kernel in kernels(module) for site in _fetched(kernel))

    def change(self, site: DescriptorLoad, rng: random.Random) -> None:
        """Give the line an alternative, and the kernel a flag that chooses."""
        box = site.box

        def aligned(launch: LaunchSite) -> str:
            stride, tensor = (text(site.kernel.argument(launch, name)) for name in (box.stride, box.base))
            return f"{stride} * {tensor}.element_size() % {ALIGNMENT_BYTES} == 0"

        flag = site.kernel.add_parameter("ALIGNED", aligned, constexpr=True)
        name, (shape, offsets, block) = text(site.line.targets[0]), map(", ".join, (box.shape, box.offsets, box.block))
        descriptor = f"tl.make_tensor_descriptor({box.base}, [{shape}], [{box.stride}, 1], [{block}])"
        choice = statements(
            f"if {flag}:\n    {name} = {descriptor}.load([{offsets}])\nelse:\n    {name} = {text(box.load)}"
        )
        place = site.body.index(site.line)
        site.body[place : place + 1] = choice


def _fetched(kernel: RewritableKernel) -> Iterator[DescriptorLoad]:
    found = {id(box.load): box for box in boxes(kernel) if is_plain(box, kernel)}
    branches = (node for node in walk(kernel.function) if isinstance(node, ast.If))
    chosen = {id(line) for node in branches for line in (*node.body, *node.orelse)}
    for body in bodies(kernel.function):
        for line in body:
            if isinstance(line, ast.Assign) and id(line.value) in found and id(line) not in chosen:
                yield DescriptorLoad(kernel, found[id(line.value)], body, line)
