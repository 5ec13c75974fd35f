"""Candidates that are modules: a class `ModelNew`, as KernelBench's solutions define it, called as a function.

The operator's reference was made from a module. Its text says how that is made and called, and by which names it has
its parameters. `ModelNew` is made and called in the same way, with the operator's inputs as its parameters.
"""

import ast
import re
import textwrap

from workers.protocol import Operator, Outcome, Stage
from workers.protocol.kernelbench import MAKING, MARK, MODULE, NEW
from workers.tracer.needed import needed_part
from workers.tracer.refusal import TraceRefused

PREPARE = "_prepare"
"""Name of the function that makes the module for a shape: its settings are sizes, such as `in_features`."""
_CALL = re.compile(r"functional_call\(\w+, (\{.*?\}), ", re.DOTALL)
_ADAPTER = """

{mark}import torch

def _settings(sizes):
{settings}

def _prepare(sizes):
    global {module}
    with torch.device("{device}"):
        {module} = {new}(*_settings(sizes)).eval()


def _require_names(names):
    known = {{name for name, _ in (*{module}.named_parameters(), *{module}.named_buffers())}}
    for name in names:
        if name not in known:
            raise AttributeError(
                f"{new} has no parameter '{{name}}', as the problem's module has; give its parameters the same names"
            )


{calling}
"""


def with_entry(source: str, operator: Operator) -> str:
    """Return a source with the operator's entry: a module gets a function that makes and calls it.

    Args:
        source: Text of the candidate.
        operator: The operator, made from a module.

    Raises:
        TraceRefused: `syntax_error` if a module is no answer for the operator.
    """
    names = _classes_and_functions(source)
    if NEW not in names or operator.entry in names:
        return source
    problem, _, added = operator.reference.partition(f"\n{MARK}")
    making, call = MAKING.search(added), _CALL.search(added)
    if making is None or call is None or operator.backward:
        reason = f"defines no function '{operator.entry}'; a module {NEW} answers operators made from a module's class"
        raise TraceRefused(Outcome.SYNTAX_ERROR, reason, Stage.PARSE)
    device, has_settings = making.groups()
    functions = added[making.end() :].partition("\ndef ")[2].rstrip()
    before, _, result = functions.rpartition("    return ")
    return source + _ADAPTER.format(
        mark=MARK,
        settings=_settings(problem) if has_settings else "    return ()\n",
        device=device,
        module=MODULE,
        new=NEW,
        calling=f"def {before}    _require_names({call[1]})\n    return {result}",
    )


def _classes_and_functions(source: str) -> set[str]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):
        return set()  # Told when it is parsed as a candidate.
    return {item.name for item in body if isinstance(item, ast.FunctionDef | ast.ClassDef)}


def _settings(problem: str) -> str:
    """Return the part of a problem that makes its module's settings, as the body of a function of the sizes.

    A number with the name of a dimension is that size: the module is made for each shape anew.
    """
    part = needed_part(ast.parse(problem), ["get_init_inputs"])
    for item in part.body:
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant) and len(item.targets) == 1:
            name, number = ast.unparse(item.targets[0]), item.value.value
            if isinstance(number, int):
                item.value = ast.parse(f"sizes.get({name!r}, {number!r})", mode="eval").body
    return textwrap.indent(ast.unparse(part), "    ") + "\n    return get_init_inputs()\n"
