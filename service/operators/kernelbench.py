"""Operators from KernelBench's problem files: the problem's text becomes the reference, its weights become inputs.

A sandbox inspected the problem before; this module runs nothing of it.
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
"""Pattern of a problem file: a class `Model` and a function that makes its inputs."""
LONGEST_NAME = 60
"""Maximum characters of a generated operator name, a few less than the protocol allows."""
TITLE_WORDS = 5
"""Maximum number of words that a docstring gives a name."""
PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)
"""Pattern of a module's name for a parameter."""
REFERENCE, SEEDS = "reference.py", ("seed.py", "second.py")
"""Names of the files beside the spec."""
BASELINES = ["compile"]
"""Baselines besides eager PyTorch; fast_p is defined for these two."""


def is_problem(text: str) -> bool:
    """Return True if a text looks like a problem file."""
    return PROBLEM.search(text) is not None


def name_of_problem(path: PurePath) -> str:
    """Derive an operator's name from a problem file, such as `level1_19_relu` from `level1/19_ReLU.py`."""
    level = f"{path.parent.name}_" if re.fullmatch(r"level\d+", path.parent.name) else ""
    plain = re.sub(r"[^a-z0-9]+", "_", f"{level}{path.stem}".lower()).strip("_")
    named = plain if plain[:1].isalpha() else f"problem_{plain}"
    return named[:LONGEST_NAME].strip("_")


def name_of_text(text: str) -> str:
    """Derive an operator's name for a problem without a file, from its first docstring if it has one.

    "Simple model that performs a ReLU activation." becomes `relu_activation`.
    """
    found = re.search(r'"""\s*(?:simple )?(?:model )?(?:that )?(?:performs )?(?:an? |the )?(.+)', text, re.IGNORECASE)
    words = re.findall(r"[a-z0-9]+", found[1].lower().split(". ")[0]) if found else []
    named = "_".join(words[:TITLE_WORDS])[:LONGEST_NAME].strip("_")
    return named if named[:1].isalpha() else f"problem_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def operator_of_problem(name: str, source: str, found: ProblemInspection, seeds: Sequence[str] = ()) -> Operator:
    """Build the operator for a problem.

    Args:
        name: Name of the operator and of the function that candidates define.
        source: Text of the problem.
        found: Result of its inspection.
        seeds: Seed kernels.

    Raises:
        InvalidInput: If the problem cannot be judged; says why.
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
    """Write the reference: the problem's text, and a function that calls its module with given weights."""
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
    """Parts of a reference that was built from a problem.

    Attributes:
        problem: Text of the problem.
        arguments: Names of the arguments of `forward`, in order.
        state: The module's name for each parameter, by the input's name.
    """

    problem: str
    arguments: tuple[str, ...]
    state: Mapping[str, str]


def parts_of_reference(operator: Operator) -> ReferenceParts | None:
    """Split an operator's reference into its parts; None if it was not built from a problem."""
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
    """Render the files of an operator's folder, by name: spec, reference and seeds."""
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


TAKEN_FROM = "Imported from a problem file of KernelBench, whose text is in reference.py."
"""First comment of the spec."""
