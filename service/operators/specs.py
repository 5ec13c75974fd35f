"""Parser of operator specs: a mapping becomes an `Operator`, or an error that names the fault and a valid value.

`service.operators.catalogue` reads the files.
"""

import ast
import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from service.errors import InvalidInput
from service.operators.sources import parse
from workers.protocol import BenchmarkShape, Input, Operator, Output, Policy, Precision, Scalar

RIGHT = {
    "name": "the operator's name in lower-case letters, digits and '_', such as 'rmsnorm'",
    "entry": "the name of the function that reference and candidates define, such as 'rmsnorm'",
    "reference": "PyTorch code that defines the entry: in JSON the source itself, in TOML a file beside the spec",
    "seeds": "a list of kernels to start from: in JSON their sources, in TOML files beside the spec",
    "inputs": "at least one table, each with name, shape and dtype",
    "inputs.name": "the argument's name in letters, digits and '_', such as 'x'",
    "inputs.shape": "a list of dimension names and sizes, such as ['M', 'N'] or ['M', 64]",
    "inputs.dtype": "a dtype by torch's name, such as 'bfloat16'",
    "inputs.distribution": "how values are drawn: 'normal', 'uniform' or 'integer'",
    "inputs.low": "the smallest value drawn, a number",
    "inputs.high": "the end of the values drawn: a number, or a dimension's name",
    "inputs.layouts": "['contiguous']",
    "inputs.constant": "true or false",
    "inputs.mutable": "true or false",
    "inputs.gradient": "false to leave its gradient out when backward is true",
    "outputs": "at least one table, each with name and dtype",
    "outputs.name": "the result's name in letters, digits and '_', such as 'y'",
    "outputs.shape": "a list of dimension names and sizes, such as ['M', 'N']; only backward needs it",
    "outputs.dtype": "a dtype by torch's name, such as 'bfloat16'",
    "scalars": "a list of tables, each with name, dtype and value",
    "scalars.name": "the argument's name in letters, digits and '_', such as 'causal'",
    "scalars.dtype": "'int', 'float' or 'bool'",
    "scalars.value": "a number, true or false, or for an int the name of a dimension",
    "shapes": "at least one table with a size of 1 or more for every dimension, such as {M = 4096, N = 4096}",
    "shapes.weight": "the shape's weight in the objective, a number above 0",
    "ranges": "[smallest, largest] for a dimension, both whole numbers of 1 or more",
    "precision": "a table with accumulate and allow_tf32",
    "precision.accumulate": "'float32' or 'float64'",
    "precision.allow_tf32": "true or false",
    "policy": "a table with host",
    "policy.host": "'allocate' or 'copy'",
    "backward": "true to judge gradients as well, or false",
    "baselines": "a list of 'compile', 'max_autotune', 'native' and 'liger'; eager PyTorch is always one",
}
"""Description of a valid value for each field of a spec, by its path without indices."""

_TABLES: dict[str, type[BaseModel]] = {
    "": Operator,
    "inputs": Input,
    "outputs": Output,
    "scalars": Scalar,
    "shapes": BenchmarkShape,
    "precision": Precision,
    "policy": Policy,
}

_NOT_IN_SPECS = {"dims", "[key]", "bool", "int", "float", "constrained-str", "constrained-int"}
"""Parts of pydantic's error locations that name its internals, and `dims`, which specs leave out."""


def parse_operator(document: Mapping[str, Any]) -> Operator:
    """Parse an operator spec in its JSON form: sources inline, benchmark shapes with or without `dims`.

    Raises:
        InvalidInput: If it is invalid; names the field and a valid value.
    """
    body = {**document, "shapes": _with_dims(document["shapes"])} if "shapes" in document else document
    try:
        operator = Operator.model_validate_json(json.dumps(body, allow_nan=False), strict=True)
    except ValidationError as error:
        raise _explain(_first(error.errors())) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the spec has a value that JSON cannot express: {error}", "spec") from None
    arguments = len(operator.inputs) + len(operator.scalars)
    _require_entry(_module(operator.reference, "reference"), operator.entry, arguments)
    for index, seed in enumerate(operator.seeds):
        _module(seed, f"seeds[{index}]")
    return operator


def nearest(word: object, known: Iterable[str]) -> str:
    """Suggest the most similar known word, such as `; did you mean 'dtype'?`; empty if none is similar."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _with_dims(shapes: object) -> object:
    """Convert benchmark shapes to the protocol's form; specs write sizes directly into the table."""
    if not isinstance(shapes, list | tuple):
        return shapes
    return [_shape(item) if isinstance(item, Mapping) and "dims" not in item else item for item in shapes]


def _shape(sizes: Mapping[str, Any]) -> dict[str, Any]:
    weight = {"weight": sizes["weight"]} if "weight" in sizes else {}
    return {"dims": {name: size for name, size in sizes.items() if name != "weight"}, **weight}


def _first(errors: list[ErrorDetails]) -> ErrorDetails:
    """Choose the error to report: an unknown key first, because a misspelt key also causes a missing one."""
    return next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])


def _explain(error: ErrorDetails) -> InvalidInput:
    """Translate one of pydantic's errors into the terms of the spec."""
    if error["type"] == "extra_forbidden":
        path = _path(error["loc"])
        return InvalidInput(f"{path}: unknown key{_known_keys(error['loc'])}", path)
    parts = tuple(part for part in error["loc"] if part not in _NOT_IN_SPECS)
    path = _path(parts)
    if error["type"] == "value_error":
        problem = error["msg"].removeprefix("Value error, ")
        # Messages of the protocol's checks across fields start with the field.
        return InvalidInput(f"{path}: {problem}", path) if path else InvalidInput(problem, problem.partition(":")[0])
    right = _right(parts)
    if error["type"] == "missing":
        return InvalidInput(f"{path} is missing; write {right}", path)
    choices = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    if choices:
        suggestion = nearest(error["input"], choices) or f"; write {right}"
        return InvalidInput(f"{path}: {_shown(error['input'])} is not one of {', '.join(choices)}{suggestion}", path)
    problem = error["msg"][0].lower() + error["msg"][1:]
    return InvalidInput(f"{path or 'the spec'}: {_shown(error['input'])}: {problem}; write {right}", path or "spec")


def _path(parts: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def _known_keys(parts: tuple[int | str, ...]) -> str:
    table = next((part for part in parts[:-1] if isinstance(part, str)), "")
    known = _TABLES[table].model_fields
    return nearest(parts[-1], known) or f"; known here: {', '.join(known)}"


def _right(parts: tuple[int | str, ...]) -> str:
    names = [part for part in parts if isinstance(part, str)]
    return RIGHT.get(".".join(names)) or RIGHT.get(names[0] if names else "") or "an operator spec"


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _module(source: str, field: str) -> ast.Module:
    try:
        return parse(source)
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise InvalidInput(f"{field}: not valid Python: {line}{error.msg}", field) from None


def _require_entry(module: ast.Module, entry: str, arguments: int) -> None:
    """Require that the reference defines the entry function with as many arguments as the spec passes."""
    functions = {item.name: item.args for item in module.body if isinstance(item, ast.FunctionDef)}
    if entry not in functions:
        raise InvalidInput(f"reference: defines no function '{entry}'{nearest(entry, functions)}", "reference")
    signature = functions[entry]
    most = len(signature.posonlyargs) + len(signature.args)
    least = most - len(signature.defaults)
    if arguments < least or (arguments > most and not signature.vararg):
        expected = f"{least} to {most}" if least < most else f"{most}"
        raise InvalidInput(
            f"reference: '{entry}' takes {expected} arguments, but inputs and scalars are {arguments}", "reference"
        )
