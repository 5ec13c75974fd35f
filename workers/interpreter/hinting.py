"""Positions of hints: the compiler applies each hint that it reads to its value, wherever the hint stands.

A hint becomes a property of the value everywhere, even if it stands in a branch that no program takes or after a
`return`. Execution cannot reveal such hints. So a hint must stand where its value is made: in the same branch and in
the same loop iteration. Parameters and loop variables are exempt: the compiler ignores their hints.
"""

import ast
from collections.abc import Mapping, Sequence

from triton import language as tl
from triton._C.libtriton import ir
from triton.compiler.code_generator import CodeGenerator

_HINTS = (tl.multiple_of, tl.max_contiguous, tl.max_constancy)
_COUNTER = "ub.poison"
# Placeholder of a loop variable until the loop is emitted.


def watch_hints() -> list[str]:
    """Make the compiler check hints. Returns the list to which it appends objections."""
    found: list[str] = []
    call = CodeGenerator.call_Function

    def watched(
        self: CodeGenerator, node: ast.Call, fn: object, args: Sequence[object], kws: Mapping[str, object]
    ) -> object:
        about = args[0] if args else kws.get("input")
        if any(fn is hint for hint in _HINTS) and isinstance(about, tl.tensor) and not _is_made_here(self, about):
            found.append(
                f"`{ast.unparse(node)}` is a hint about a value that is made outside the branch or the loop of the "
                "hint, and the compiler applies it even if it is not reached: give hints where the value is made"
            )
        return call(self, node, fn, args, kws)

    CodeGenerator.call_Function = watched
    return found


def _is_made_here(generator: CodeGenerator, value: tl.tensor) -> bool:
    """True if a value is made in the block that is being emitted, or by no instruction."""
    sought, blocks = value.handle.id(), set[int]()

    def look(operation: ir.operation) -> None:
        results = (operation.get_result(index).id() for index in range(operation.get_num_results()))
        if sought in results and operation.get_name() != _COUNTER:
            blocks.add(operation.get_block().id())

    generator.module.walk(look)
    return blocks <= {generator.builder.get_insertion_block().id()}
