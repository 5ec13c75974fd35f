"""Where hints stand: the compiler heeds each that it reads, wherever that is, for the value that it is about.

A hint becomes a property of the value, and holds for it as a whole: in a branch that no program takes, too, and behind
a `return`. What runs cannot tell, so a hint has to stand where its value is made: in the same branch, and in the same
turn of a loop. Parameters and counters of loops are free: there the compiler heeds none.
"""

import ast
from collections.abc import Mapping, Sequence

from triton import language as tl
from triton._C.libtriton import ir
from triton.compiler.code_generator import CodeGenerator

_HINTS = (tl.multiple_of, tl.max_contiguous, tl.max_constancy)
_COUNTER = "ub.poison"
# What stands for a loop's counter until the loop is written.


def watch_hints() -> list[str]:
    """Have the compiler look at hints; returns the list that it writes down what is wrong with them in."""
    found: list[str] = []
    call = CodeGenerator.call_Function

    def watched(
        self: CodeGenerator, node: ast.Call, fn: object, args: Sequence[object], kws: Mapping[str, object]
    ) -> object:
        about = args[0] if args else kws.get("input")
        if any(fn is hint for hint in _HINTS) and isinstance(about, tl.tensor) and not _is_made_here(self, about):
            found.append(
                f"`{ast.unparse(node)}` is a hint about a value that is made elsewhere than in the branch or the loop "
                "that it stands in, and the compiler heeds it whether it is reached or not: give hints where the value "
                "is made"
            )
        return call(self, node, fn, args, kws)

    CodeGenerator.call_Function = watched
    return found


def _is_made_here(generator: CodeGenerator, value: tl.tensor) -> bool:
    """Whether a value is made in the block that is being written, or by no instruction."""
    sought, blocks = value.handle.id(), set[int]()

    def look(operation: ir.operation) -> None:
        results = (operation.get_result(index).id() for index in range(operation.get_num_results()))
        if sought in results and operation.get_name() != _COUNTER:
            blocks.add(operation.get_block().id())

    generator.module.walk(look)
    return blocks <= {generator.builder.get_insertion_block().id()}
