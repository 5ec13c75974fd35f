"""Dimensions by the numbers of a file: each number is changed alone, and the extents that change with it are one.

Runs inside the sandbox. Extents that happen to be equal, such as batch, height and width, are told apart this way.
"""

import ast
from collections.abc import Iterator, Sequence

from workers.kernelbench.extents import SMALLEST_LEADING, Place, SizeNumber
from workers.kernelbench.loading import LoadedProblem, ProblemUnfit, loaded_like
from workers.protocol.kernelbench import EXAMPLES
from workers.tracer.reference import RAISED
from workers.tracer.refusal import NotExportable

MAKERS = ("get_inputs", "get_init_inputs", EXAMPLES)
"""Functions whose numbers are sizes."""
MOST_NUMBERS = 24
"""Maximum number of numbers that are changed: the file runs once for each."""


def size_numbers(source: str, problem: LoadedProblem) -> list[SizeNumber]:
    """Find the numbers of a file that are sizes, by running it with each one doubled."""
    tree = ast.parse(source)
    found = []
    numbers = [each for each in _numbers(tree) if type(each[2]) is int and each[2] >= SMALLEST_LEADING]
    for name, node, size in numbers[:MOST_NUMBERS]:
        node.value = 2 * size
        try:
            shapes = loaded_like(tree, problem).shapes
        except (*RAISED, ProblemUnfit, NotExportable):
            shapes = []
        node.value = size
        places = tuple(_changed(problem.shapes, shapes, size))
        if places:
            found.append(SizeNumber(name, places))
    return found


def _numbers(tree: ast.Module) -> Iterator[tuple[str, ast.Constant, int]]:
    """List the names, the nodes and the values of the numbers of a file that may be sizes."""
    for item in tree.body:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(size)) as node):
                yield name, node, size
            case ast.FunctionDef(name=name) if name in MAKERS:
                for part in ast.walk(item):
                    if isinstance(part, ast.Constant) and isinstance(part.value, int):
                        yield "", part, part.value


def _changed(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], size: int) -> Iterator[Place]:
    """List the extents that had the size of a number and doubled with it."""
    if [len(shape) for shape in before] != [len(shape) for shape in after]:
        return
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        for axis, (was, became) in enumerate(zip(old, new, strict=True)):
            if was == size and became == 2 * size:
                yield index, axis


def unpacked_names(source: str, problem: LoadedProblem) -> dict[Place, str]:
    """Return names that the file gives to extents of arguments, as in `batch, width = x.shape`."""
    positions = {tensor.name: index for index, tensor in enumerate(problem.tensors) if tensor.parameter is None}
    found: dict[Place, str] = {}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)],
                value=ast.Attribute(value=ast.Name(id=tensor), attr="shape")
                | ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="size"), args=[]),
            ) if tensor in positions and len(names) == len(problem.tensors[positions[tensor]].sizes[0]):
                for axis, name in enumerate(names):
                    if isinstance(name, ast.Name) and name.id.strip("_"):
                        found.setdefault((positions[tensor], axis), name.id)
    return found
