"""Another seed kernel, for drafts of TorchInductor whose kernels compute with sizes: sizes known to the compiler.

Drafts serve every size, so indices of maps are divided by numbers that are known at run time. With the sizes known to
the compiler, such a division is a multiplication and a shift, and bounds that always hold are left out. Each shape is
then compiled by itself.
"""

import ast
import re
from collections.abc import Collection

from service.operators.sources import jit_functions, launches, parse, render, walk

_POINTER = re.compile(r"_ptr(_\d+)?$")
"""End of a pointer's name; one that is passed twice, as what is changed in place, has a number behind it."""


def with_fixed_sizes(draft: str, scalars: Collection[str] = ()) -> str | None:
    """Make every size a constant of its kernel; returns None if no kernel with sizes divides.

    Args:
        draft: A draft of TorchInductor.
        scalars: Names of the operator's scalars, which are no sizes.
    """
    module = parse(draft)
    functions = jit_functions(module)
    launched = {site.kernel.name for site in launches(module)}
    if not any(_divides(functions[name]) for name in launched):
        return None
    for name in launched:
        for parameter in functions[name].args.args:
            if _is_number(parameter) and parameter.arg not in scalars:
                parameter.annotation = ast.parse("tl.constexpr", mode="eval").body
    return render(module)


def _divides(function: ast.FunctionDef) -> bool:
    """Return True if a kernel has sizes and divides integers."""
    has_sizes = any(map(_is_number, function.args.args))
    operations = (node.op for node in walk(function) if isinstance(node, ast.BinOp))
    return has_sizes and any(isinstance(each, ast.FloorDiv | ast.Mod) for each in operations)


def _is_number(parameter: ast.arg) -> bool:
    """Return True for a size or scalar that the compiler does not know."""
    return parameter.annotation is None and _POINTER.search(parameter.arg) is None
