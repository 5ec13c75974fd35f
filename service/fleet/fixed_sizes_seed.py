"""Another seed kernel, for drafts of TorchInductor whose kernels compute with sizes: sizes known to the compiler.

Drafts serve every size, so indices of maps are divided by numbers that are known at run time. With the sizes known to
the compiler, such a division is a multiplication and a shift, and bounds that always hold are left out. Each shape is
then compiled by itself. Numbers that a loop of the host changes are no sizes: each value would be a kernel of its own.
"""

import ast
import re
from collections.abc import Collection, Iterator

from service.operators.sources import LaunchSite, jit_functions, launches, parse, render, walk

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
    sites = launches(module)
    if not any(_divides(site.kernel) for site in sites):
        return None
    counted = {name for site in sites for name in _counted(site)}
    for name in {site.kernel.name for site in sites}:
        for parameter in functions[name].args.args:
            if _is_number(parameter) and parameter.arg not in scalars and (name, parameter.arg) not in counted:
                parameter.annotation = ast.parse("tl.constexpr", mode="eval").body
    return render(module)


def _counted(site: LaunchSite) -> Iterator[tuple[str, str]]:
    """Yield kernel and parameter of each argument that a loop of the host changes."""
    targets = (each.target for each in walk(site.host) if isinstance(each, ast.For))
    loops = {target.id for target in targets if isinstance(target, ast.Name)}
    for parameter, value in zip(site.kernel.args.args, site.call.args, strict=False):
        if any(isinstance(node, ast.Name) and node.id in loops for node in walk(value)):
            yield site.kernel.name, parameter.arg


def _divides(function: ast.FunctionDef) -> bool:
    """Return True if a kernel has sizes and divides integers."""
    has_sizes = any(map(_is_number, function.args.args))
    operations = (node.op for node in walk(function) if isinstance(node, ast.BinOp))
    return has_sizes and any(isinstance(each, ast.FloorDiv | ast.Mod) for each in operations)


def _is_number(parameter: ast.arg) -> bool:
    """Return True for a size or scalar that the compiler does not know."""
    return parameter.annotation is None and _POINTER.search(parameter.arg) is None
