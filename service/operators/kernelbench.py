"""Operators out of problem files of KernelBench: the problem's own text is the reference, its weights are inputs.

What a problem holds was found out elsewhere, in a jail; here nothing of it is run.
"""

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import tomli_w

from service.errors import InvalidInput
from service.operators.catalogue import SPEC_FILE
from service.operators.sources import dotted, parse
from service.operators.specs import parse_operator
from workers.protocol import Operator
from workers.protocol.kernelbench import MODULE, PREPARATION, ProblemInspection

PROBLEM = re.compile(r"^class Model\b.*^def get_inputs\b", re.MULTILINE | re.DOTALL)
"""What a problem of KernelBench has and no spec does: a module `Model` and a function that makes its inputs."""
LONGEST_NAME = 60
"""Characters of an operator's name, a few less than it may have."""
PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)
"""What a module calls a parameter."""
REFERENCE, SEEDS = "reference.py", ("seed.py", "second.py")
"""Files beside the spec."""
BASELINES = ["compile"]
"""What kernels are compared with besides eager PyTorch: fast_p is said of these two."""


def is_problem(text: str) -> bool:
    """Whether a text looks like a problem file."""
    return PROBLEM.search(text) is not None


def name_of_problem(path: PurePath) -> str:
    """An operator's name for a problem file, such as `level1_19_relu` for `level1/19_ReLU.py`."""
    level = f"{path.parent.name}_" if re.fullmatch(r"level\d+", path.parent.name) else ""
    plain = re.sub(r"[^a-z0-9]+", "_", f"{level}{path.stem}".lower()).strip("_")
    named = plain if plain[:1].isalpha() else f"problem_{plain}"
    return named[:LONGEST_NAME].strip("_")


def name_of_text(text: str) -> str:
    """An operator's name for a problem that has no file."""
    return f"problem_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def operator_of_problem(name: str, source: str, found: ProblemInspection, seeds: Sequence[str] = ()) -> Operator:
    """The operator for a problem.

    Args:
        name: What it is called, and the function that candidates define.
        source: The problem's text.
        found: What an inspection says of it.
        seeds: Kernels to start from, if there are any.

    Raises:
        InvalidInput: If it cannot be judged; says why.
    """
    if found.reason:
        where = f"line {found.line}: " if found.line else ""
        raise InvalidInput(f"this problem cannot be judged: {where}{found.reason}", "problem")
    return parse_operator(
        {
            "name": name,
            "entry": name,
            "reference": _reference(name, source, found),
            "seeds": list(seeds),
            **found.model_dump(mode="json", include={"inputs", "outputs", "scalars"}, exclude_defaults=True),
            "shapes": [dict(found.dims)],
            "ranges": {dimension: list(bounds) for dimension, bounds in found.ranges.items()},
            "baselines": BASELINES,
        }
    )


def _reference(entry: str, source: str, found: ProblemInspection) -> str:
    """The problem's text, and a function that has its module compute with the weights that it is given."""
    arguments = [item.name for item in found.inputs] + [scalar.name for scalar in found.scalars]
    state = ", ".join(f"{path!r}: {name}" for name, path in found.parameters.items())
    given = "".join(f"{name}, " for name in found.arguments).rstrip()
    return (
        f"{source.rstrip()}\n{PREPARATION}\n\n"
        f"def {entry}({', '.join(arguments)}):\n"
        '    """What the problem above computes, with its parameters as arguments."""\n'
        f"    return torch.func.functional_call({MODULE}, {{{state}}}, ({given}))\n"
    )


@dataclass(frozen=True)
class ReferenceParts:
    """What a reference was made of.

    Attributes:
        problem: The problem's text.
        arguments: Names of what `forward` is given, in its order.
        state: What the module calls each parameter, by the input's name.
    """

    problem: str
    arguments: tuple[str, ...]
    state: Mapping[str, str]


def parts_of_reference(operator: Operator) -> ReferenceParts | None:
    """What an operator's reference was made of; None if it was not made of a problem."""
    problem, marker, function = operator.reference.partition(PREPARATION)
    calls = [node for node in ast.walk(parse(function)) if isinstance(node, ast.Call)] if marker else []
    match calls:
        case [ast.Call(args=[_, ast.Dict(keys=paths, values=names), ast.Tuple(elts=given)])]:
            pairs = zip(names, paths, strict=True)
            state = {dotted(name): str(path.value) for name, path in pairs if isinstance(path, ast.Constant)}
            if not all(PATH.fullmatch(path) for path in state.values()):
                return None
            return ReferenceParts(problem, tuple(dotted(name) for name in given), state)
    return None


def files_of_operator(operator: Operator, notes: tuple[str, ...] = ()) -> Mapping[str, str]:
    """The files of an operator's folder, by name: its spec, its reference, and its seeds."""
    document = operator.model_dump(mode="json", exclude_defaults=True)
    kernels = dict(zip(SEEDS, operator.seeds, strict=False))
    seeds = {"seeds": list(kernels)} if kernels else {}
    shapes = [dict(shape["dims"]) for shape in document.pop("shapes")]
    tables: dict[str, Any] = {key: document.pop(key) for key in ("inputs", "outputs", "scalars") if key in document}
    ranges = document.pop("ranges", {})
    document |= {"reference": REFERENCE, **seeds}
    spec = tomli_w.dumps({**document, **tables, "shapes": shapes, **({"ranges": ranges} if ranges else {})})
    comments = "".join(f"# {' '.join(note.split())}\n" for note in (TAKEN_FROM, *notes))
    return {SPEC_FILE: comments + spec, REFERENCE: operator.reference, **kernels}


TAKEN_FROM = "Made of a problem file of KernelBench, whose text is in reference.py."
"""First line of the spec."""
