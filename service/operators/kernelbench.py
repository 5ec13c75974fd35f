"""Operators from Python files: the text of a file becomes the reference, the weights of its module become inputs.

A sandbox inspected the file before; this module runs nothing of it.
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
from workers.protocol.kernelbench import (
    EXAMPLES,
    MARK,
    MODULE,
    RESULTS,
    ProblemInspection,
    objects_of,
    preparation,
)

PROBLEM = re.compile(r"^class Model\b.*^def get_inputs\b", re.MULTILINE | re.DOTALL)
"""Pattern of a problem file: a class `Model` and a function that makes its inputs."""
LONGEST_NAME = 60
"""Maximum characters of a generated operator name, a few less than the protocol allows."""
TITLE_WORDS = 5
"""Maximum number of words that a docstring gives a name."""
PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)
"""Pattern of a module's name for a parameter."""
REFERENCE, SEEDS = "reference.py", ("seed.py", "second.py", "third.py")
"""Names of the files beside the spec."""
RETURNED = """
def _returned(results, inputs):
    return tuple(each for each in results if all(each is not one for one in inputs))
"""
"""Function of a reference that drops inputs changed in place from what its file returns."""
BASELINES = ["compile"]
"""Baselines besides eager PyTorch; fast_p is defined for these two."""


def is_problem(text: str) -> bool:
    """Return True if a text looks like a problem file."""
    return PROBLEM.search(text) is not None


def is_source(text: str) -> bool:
    """Return True if a text is Python that defines functions or modules, and no spec in TOML or JSON."""
    try:
        body = parse(text).body
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(item, ast.FunctionDef | ast.ClassDef) for item in body)


def name_of_problem(path: PurePath) -> str:
    """Derive an operator's name from a problem file, such as `level1_19_relu` from `level1/19_ReLU.py`."""
    level = f"{path.parent.name}_" if re.fullmatch(r"level\d+", path.parent.name) else ""
    plain = re.sub(r"[^a-z0-9]+", "_", f"{level}{path.stem}".lower()).strip("_")
    named = plain if plain[:1].isalpha() else f"problem_{plain}"
    return named[:LONGEST_NAME].strip("_")


def name_of_target(target: str) -> str:
    """Derive an operator's name from a function or module, such as `top_k_router` from `TopKRouter`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z0-9][A-Z])(?=[A-Z][a-z])", "_", target)
    return name_of_problem(PurePath(f"{words.strip('_')}.py"))


def name_of_text(text: str) -> str:
    """Derive an operator's name for Python without a file: from its last function, or a problem's first docstring.

    "Simple model that performs a ReLU activation." becomes `relu_activation`.
    """
    if not is_problem(text) and is_source(text):
        defined = [item.name for item in parse(text).body if isinstance(item, ast.FunctionDef | ast.ClassDef)]
        public = [name for name in defined if not name.startswith("_") and name != EXAMPLES]
        return name_of_target(public[-1]) if public else "operator"
    found = re.search(r'"""\s*(?:simple )?(?:model )?(?:that )?(?:performs )?(?:an? |the )?(.+)', text, re.IGNORECASE)
    words = re.findall(r"[a-z0-9]+", found[1].lower().split(". ")[0]) if found else []
    named = "_".join(words[:TITLE_WORDS])[:LONGEST_NAME].strip("_")
    return named if named[:1].isalpha() else f"problem_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def operator_of_problem(name: str, source: str, found: ProblemInspection, seeds: Sequence[str] = ()) -> Operator:
    """Build the operator for a file.

    Args:
        name: Name of the operator and of the function that candidates define. If empty, these are called as the file's
            function, the operator in lower case; a function that calls itself keeps its name for itself.
        source: Text of the file.
        found: Result of its inspection.
        seeds: Seed kernels.

    Raises:
        InvalidInput: If it cannot be judged; says why.
    """
    if found.reason:
        where = f"line {found.line}: " if found.line else ""
        raise InvalidInput(f"this problem cannot be judged: {where}{found.reason}", "problem")
    entry = name or (found.target if found.form == "function" else name_of_target(found.target))
    name = name or name_of_target(found.target)
    if found.form == "function" and entry == found.target and _needs_itself(source, entry):
        entry = f"{entry}_operator"
    return parse_operator(
        {
            "name": name,
            "entry": entry,
            "reference": _reference(entry, source, found),
            "seeds": list(seeds),
            **found.model_dump(mode="json", include={"inputs", "outputs", "scalars"}, exclude_defaults=True),
            "shapes": [dict(shape) for shape in found.shapes],
            "ranges": {dimension: list(bounds) for dimension, bounds in found.ranges.items()},
            "policy": {"host": "copy"},
            **({"precision": {"allow_tf32": "convolutions"}} if found.default_tf32 else {}),
            **({"baselines": BASELINES} if found.form == "problem" else {}),
        }
    )


def _needs_itself(source: str, name: str) -> bool:
    """Return True if a function, or one that it calls, reads its own name, which then must stay its own."""
    defined = {item.name: item for item in parse(source).body if isinstance(item, ast.FunctionDef | ast.ClassDef)}
    reached: set[str] = set()
    found = {name} & {*defined}
    while found:
        reached |= found
        nodes = [node for each in found for part in defined[each].body for node in ast.walk(part)]
        read = {node.id for node in nodes if isinstance(node, ast.Name)}
        if name in read:
            return True
        found = read & {*defined} - reached
    return False


def _reference(entry: str, source: str, found: ProblemInspection) -> str:
    """Write the reference: the file's text, and a function that calls its function or module with given weights."""
    arguments = [item.name for item in found.inputs] + [scalar.name for scalar in found.scalars]
    positional = [text for at, text in enumerate(found.arguments) if at not in found.keywords]
    keywords = {name: found.arguments[at] for at, name in found.keywords.items()}
    if found.form == "function":
        call = f"_function({', '.join([*positional, *(f'{name}={text}' for name, text in keywords.items())])})"
    else:
        state = ", ".join(f"{path!r}: {name}" for name, path in found.parameters.items())
        given = "".join(f"{text}, " for text in positional).rstrip()
        named = ", ".join(f"{name!r}: {text}" for name, text in keywords.items())
        call = f"torch.func.functional_call({MODULE}, {{{state}}}, ({given}){f', {{{named}}}' if named else ''})"
    own = len(found.outputs) - sum(item.mutable for item in found.inputs)
    result, helper = f"{RESULTS}({call})", ""
    if changed := [item.name for item in found.inputs if item.mutable]:  # Their contents are results by themselves.
        result, helper = f"_returned({result}, [{', '.join(changed)}])", RETURNED
    chosen = "[0]" if own == 1 else ""
    objects = objects_of(found.form, found.objects, found.example) if found.objects else ""
    prepared = preparation(found.form, found.target, real=found.real, objects=objects)
    return (
        f"{source.rstrip()}\n{prepared}{helper}\n\n"
        f"def {entry}({', '.join(arguments)}):\n"
        '    """What the text above computes, with parameters as arguments."""\n'
        f"    return {result}{chosen}\n"
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
    """Split an operator's reference into its parts; None if it was not built from a problem of KernelBench."""
    problem, marker, added = operator.reference.partition(f"\n{MARK}")
    if not marker or not is_problem(problem):
        return None
    for node in ast.walk(parse(added)):
        match node:
            case ast.Call(args=[ast.Name(), ast.Dict(keys=paths, values=names), ast.Tuple(elts=given), *_]):
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


TAKEN_FROM = "Made from a Python file, whose text is in reference.py."
"""First comment of the spec."""
