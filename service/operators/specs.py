"""Parser of operator specs: a mapping becomes an `Operator`, or an error that names the fault and a valid value.

`service.operators.catalogue` reads the files.
"""

import ast
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kernelreef.validation import FieldFault, faults, most_telling_first, nearest
from service.errors import InvalidInput
from service.operators.sources import parse
from workers.protocol import Operator

RIGHT = {
    "name": "the operator's name in lower-case letters, digits and '_', such as 'rmsnorm'",
    "entry": "the name of the function that reference and candidates define, such as 'rmsnorm'",
    "reference": "PyTorch code that defines the entry: in JSON the source itself, in TOML a file beside the spec",
    "seeds": "a list of kernels to start from: in JSON their sources, in TOML files beside the spec",
    "inputs": "at least one table, each with name, shape and dtype",
    "inputs.name": "the argument's name in letters, digits and '_', such as 'x'",
    "inputs.shape": "a list of dimension names, sizes, and products and sums of them, such as ['M', 64] or ['64*K']",
    "inputs.dtype": "a dtype by torch's name, such as 'bfloat16'",
    "inputs.distribution": "how values are drawn: 'normal', 'uniform' or 'integer'; of ordered integers 'sorted', "
    "'offsets', 'ends', 'starts', 'counts' or 'unique'",
    "inputs.low": "the smallest value drawn, a number",
    "inputs.high": "the end of the values drawn: a number, or an extent such as 'N' or '2*N'",
    "inputs.marker": "a whole number outside of 'low' to 'high' that some integers are, such as -100",
    "inputs.layouts": "['contiguous']",
    "inputs.constant": "true or false",
    "inputs.mutable": "true or false",
    "inputs.optional": "true if the argument may be None",
    "inputs.gradient": "false to leave its gradient out when backward is true",
    "outputs": "at least one table, each with name and dtype",
    "outputs.name": "the result's name in letters, digits and '_', such as 'y'",
    "outputs.shape": "a list of dimension names and sizes, such as ['M', 'N']; only backward needs it",
    "outputs.dtype": "a dtype by torch's name, such as 'bfloat16'",
    "scalars": "a list of tables, each with name, dtype and value",
    "scalars.name": "the argument's name in letters, digits and '_', such as 'causal'",
    "scalars.dtype": "'int', 'float' or 'bool'",
    "scalars.value": "a number, true or false, or for an int an extent such as 'N'",
    "shapes": "at least one table with a size of 1 or more for every dimension, such as {M = 4096, N = 4096}",
    "shapes.weight": "the shape's weight in the objective, a number above 0",
    "ranges": "[smallest, largest] for a dimension, both whole numbers of 0 or more",
    "precision": "a table with accumulate and allow_tf32",
    "precision.accumulate": "'float32' or 'float64'",
    "precision.allow_tf32": "true, false or 'convolutions'",
    "policy": "a table with host",
    "policy.host": "'allocate' or 'copy'",
    "backward": "true to judge gradients as well, or false",
    "baselines": "a list of 'compile', 'max_autotune', 'native', 'liger', 'helion', beside eager PyTorch; or ['seed']",
}
"""Description of a valid value for each field of a spec, by its path without indices."""

_NOT_IN_SPECS = "dims"
"""Part of locations that specs leave out: they write sizes directly into the table of a shape."""
_COMPLETE = ("extra_forbidden", "value_error")
"""Types of errors whose text says what would be right."""


def parse_operator(document: Mapping[str, Any]) -> Operator:
    """Parse an operator spec in its JSON form: sources inline, benchmark shapes with or without `dims`.

    Raises:
        InvalidInput: If it is invalid; names the field and a valid value.
    """
    given = {name: 1 for name in _optional(document.get("inputs"))}
    body = {**document, "shapes": _with_dims(document["shapes"], given)} if "shapes" in document else document
    try:
        operator = Operator.model_validate_json(json.dumps(body, allow_nan=False), strict=True)
    except ValidationError as error:
        raise _explain(most_telling_first(error.errors())[0]) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the spec has a value that JSON cannot express: {error}", "spec") from None
    arguments = len(operator.inputs) + len(operator.scalars)
    _require_entry(_module(operator.reference, "reference"), operator.entry, arguments)
    for index, seed in enumerate(operator.seeds):
        _module(seed, f"seeds[{index}]")
    return operator


def _optional(inputs: object) -> list[str]:
    """Return the names of optional inputs of a document that may be malformed."""
    items = inputs if isinstance(inputs, list | tuple) else ()
    found = (item.get("name") for item in items if isinstance(item, Mapping) and item.get("optional") is True)
    return [name for name in found if isinstance(name, str)]


def _with_dims(shapes: object, given: Mapping[str, int]) -> object:
    """Convert benchmark shapes to the protocol's form, and add the optional inputs that they do not name as given.

    Specs write sizes directly into the table.
    """
    if not isinstance(shapes, list | tuple):
        return shapes
    return [_shape(item, given) if isinstance(item, Mapping) else item for item in shapes]


def _shape(sizes: Mapping[str, Any], given: Mapping[str, int]) -> Mapping[str, Any]:
    if "dims" in sizes:
        dims = sizes["dims"]
        return {**sizes, "dims": {**given, **dims}} if given and isinstance(dims, Mapping) else sizes
    weight = {"weight": sizes["weight"]} if "weight" in sizes else {}
    return {"dims": {**given, **{name: size for name, size in sizes.items() if name != "weight"}}, **weight}


def _explain(error: ErrorDetails) -> InvalidInput:
    """Make an exception of a validation error, with a valid value for the field of the spec."""
    fault = faults([error], Operator)[0]
    steps = tuple(step for step in fault.steps if step != _NOT_IN_SPECS)
    path, problem = FieldFault(steps, fault.problem).path, fault.problem
    if error["type"] == "value_error" and not path:
        # Messages of the protocol's checks across fields start with the field.
        return InvalidInput(problem, problem.partition(":")[0])
    subject = path or "the spec"
    subject = f"{subject} {problem}" if error["type"] == "missing" else f"{subject}: {problem}"
    complete = error["type"] in _COMPLETE or "did you mean" in problem
    return InvalidInput(subject if complete else f"{subject}; write {_right(steps)}", path or "spec")


def _right(parts: tuple[int | str, ...]) -> str:
    names = [part for part in parts if isinstance(part, str)]
    return RIGHT.get(".".join(names)) or RIGHT.get(names[0] if names else "") or "an operator spec"


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
