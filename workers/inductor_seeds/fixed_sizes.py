"""Seeds for one shape: an operator's first sizes as numbers, beside a seed for all sizes.

With symbols for sizes, Inductor divides by numbers that are known at run time, reduces rows in loops, and does not fuse
what it cannot prove equal. PyTorch compiles for the sizes that it sees first, too. The seed's function for all sizes
calls the one for the first sizes where they are given.
"""

from workers.inductor_seeds.optional import arguments_of, merged
from workers.protocol import Operator
from workers.protocol.extent import names_in, size_of

MOST_KERNELS = 16
"""Maximum number of kernels of a seed for all sizes that is written for one shape too. Kernels of equal layers become
different ones, which takes too long to compile for whole models."""
ENDING = "_fixed"
"""Ending of the name of the function for one shape."""
LONGEST_NAME = 64
"""Maximum length of an entry's name."""


def at_first_shape(operator: Operator, kernels: int) -> Operator | None:
    """Return an operator of one shape, the first; None if sizes do not vary, or a seed for one shape is too long.

    Args:
        operator: The operator.
        kernels: Number of kernels of its seed for all sizes.
    """
    if not operator.ranges or len(operator.shapes) > 1 or operator.presences or kernels > MOST_KERNELS:
        return None
    entry = f"{operator.entry[: LONGEST_NAME - len(ENDING)]}{ENDING}"
    names = ", ".join(arguments_of(operator))
    call = f"def {entry}({names}):\n    return {operator.entry}({names})\n"
    body = operator.model_dump()
    body |= {"entry": entry, "reference": f"{operator.reference.rstrip()}\n\n\n{call}"}
    return Operator.model_validate(body | {"seeds": (), "baselines": None, "ranges": {}})


def chosen_by_sizes(operator: Operator, source: str, fixed: Operator, fixed_source: str) -> str:
    """Join a seed for all sizes with one for the first shape, which it calls there.

    Args:
        operator: The operator.
        source: Its seed for all sizes.
        fixed: The operator of one shape.
        fixed_source: Its seed.
    """
    names = ", ".join(arguments_of(operator))
    dims, conditions = operator.shapes[0].dims, dict[str, str]()
    for item in operator.inputs:
        for axis, extent in enumerate(item.shape):
            if set(names_in(extent)) & operator.ranges.keys():
                conditions.setdefault(str(extent), f"{item.name}.shape[{axis}] == {size_of(extent, dims)}")
    head = f"def {operator.entry}({names}):\n"
    choice = f"    if {' and '.join(conditions.values())}:\n        return {fixed.entry}({names})\n"
    return merged([fixed_source, source.replace(head, head + choice)])
