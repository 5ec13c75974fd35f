"""Seeds of operators with optional inputs: a function for each combination of given ones, and one that chooses.

Each combination is an operator of its own, without the inputs that are absent.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from workers.protocol import Operator, Outcome
from workers.protocol.extent import names_in
from workers.tracer.refusal import TraceRefused

MOST_OPTIONAL = 3
"""Maximum number of optional inputs: eight combinations, of some seconds each."""


@dataclass(frozen=True)
class PresentVariant:
    """An operator with some optional inputs left out.

    Attributes:
        operator: The operator, whose remaining inputs are always given.
        absent: Names of the inputs that are left out.
    """

    operator: Operator
    absent: tuple[str, ...]


def variants_of(operator: Operator) -> Iterator[PresentVariant]:
    """Yield an operator for each combination of optional inputs, the most given first.

    Raises:
        TraceRefused: If there are too many.
    """
    if len(operator.presences) > MOST_OPTIONAL:
        reason = f"the operator has {len(operator.presences)} optional inputs; seeds are written for {MOST_OPTIONAL}"
        raise TraceRefused(Outcome.FORBIDDEN_OP, reason)
    for given in product((True, False), repeat=len(operator.presences)):
        absent = tuple(name for name, is_given in zip(operator.presences, given, strict=True) if not is_given)
        yield PresentVariant(_without(operator, absent), absent)


def _without(operator: Operator, absent: Sequence[str]) -> Operator:
    entry = f"{operator.entry}_{'without_' + '_'.join(absent) if absent else 'with_all'}"
    kept = [item for item in operator.inputs if item.name not in absent]
    taken = [*(item.name for item in kept), *(item.name for item in operator.scalars)]
    passed = ["None" if item.name in absent else item.name for item in operator.inputs]
    passed += [item.name for item in operator.scalars]
    call = f"def {entry}({', '.join(taken)}):\n    return {operator.entry}({', '.join(passed)})\n"
    extents = [*(extent for item in kept for extent in item.shape), *(item.value for item in operator.scalars)]
    used = {name for extent in extents for name in names_in(extent)}  # An absent input takes its own dimensions along.
    sizes = [{name: size for name, size in shape.dims.items() if name in used} for shape in operator.shapes]
    body = operator.model_dump()
    body |= {
        "entry": entry,
        "reference": f"{operator.reference.rstrip()}\n\n\n{call}",
        "inputs": [{**item.model_dump(), "optional": False} for item in kept],
        "seeds": (),
        "baselines": None,
        "shapes": [{"dims": dims} for at, dims in enumerate(sizes) if dims not in sizes[:at]],
        "ranges": {name: bounds for name, bounds in operator.ranges.items() if name in used},
    }
    return Operator.model_validate(body)


def joined(operator: Operator, variants: Sequence[PresentVariant], sources: Sequence[str]) -> str:
    """Join the sources of all variants, and add the operator's entry, which calls the one for its arguments."""
    names = arguments_of(operator)
    lines = [f"def {operator.entry}({', '.join(names)}):"]
    for variant in sorted(variants, key=lambda each: -len(each.absent)):
        taken = [name for name in names if name not in variant.absent]
        call = f"return {variant.operator.entry}({', '.join(taken)})"
        absent = " and ".join(f"{name} is None" for name in variant.absent)
        lines += [f"    if {absent}:", f"        {call}"] if absent else [f"    {call}"]
    return merged([*sources, "\n".join(lines)])


def arguments_of(operator: Operator) -> list[str]:
    """Return the names of an entry's arguments, in order."""
    return [*(item.name for item in operator.inputs), *(item.name for item in operator.scalars)]


def merged(sources: Sequence[str]) -> str:
    """Join sources to one, with equal imports and device functions once."""
    parts = [ast.unparse(line) for source in sources for line in ast.parse(source).body]
    kept = list(dict.fromkeys(parts))
    header = [part for part in kept if part.startswith(("import ", "from "))]
    return "\n\n\n".join(["\n".join(header), *(part for part in kept if part not in header)]) + "\n"
