"""Python files that become operators: the question about a file, and the result of its inspection in the sandbox.

A file is a problem of KernelBench, or has a function or module of any name with example inputs.
"""

import ast
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from workers.protocol.base import WireModel
from workers.protocol.operator import MAX_INPUTS, Identifier, Input, Output, Scalar, Size
from workers.protocol.report import Reason

MODULE = "_model"
"""Name of a problem's module after `PREPARATION` has run."""
NEW = "ModelNew"
"""Name of the module in a solution of KernelBench; a candidate for a problem may be such a module."""
EXAMPLES = "example_inputs"
"""Name of the function that makes the example arguments of a function or module."""
RESULTS = "_results"
"""Name of the function of `PREPARATION` that lists the tensors that a call returns."""
MARK = "# What follows was added by Kernelreef.\n"
"""Comment between the text of a file and the preparation."""
GIVEN = "_given"
"""Name of the example of `PREPARATION`, for arguments that are objects of other types than tensors and numbers."""
FILLED = "_filled"
"""Name of the function of `PREPARATION` that puts tensors into such an object."""
_IMPORTS = "import collections.abc\nimport copy\n\nimport torch\n\n"
_FLATTENING = f"""
def {RESULTS}(value):
    \"\"\"List the tensors of a result: alone, or in tuples, lists, mappings and fields; complex ones as pairs.\"\"\"
    if isinstance(value, torch.Tensor):
        return (torch.view_as_real(value) if value.is_complex() else value,)
    if isinstance(value, collections.abc.Mapping):
        value = [*value.values()]
    elif hasattr(value, "__dataclass_fields__"):
        value = [getattr(value, name) for name in value.__dataclass_fields__]
    parts = value if isinstance(value, (tuple, list)) else ()
    return tuple(each for part in parts for each in {RESULTS}(part))
"""
HELPERS = f"""
def _example(made, number):
    \"\"\"Return one example: the only one, or that of a number.\"\"\"
    if not isinstance(made, collections.abc.Mapping):
        made = [made] if isinstance(made, torch.Tensor) else list(made)
    return made if number is None else made[number]


def {FILLED}(value, fields):
    \"\"\"Return an object of the example with other fields.\"\"\"
    if hasattr(value, "_replace"):
        return value._replace(**fields)
    value = copy.copy(value)
    for name, field in fields.items():
        if isinstance(value, collections.abc.Mapping):
            value[name] = field
        else:
            object.__setattr__(value, name, field)
    return value
"""
"""Functions of `PREPARATION` for objects among the arguments."""
_MODES = f"""
for _part in {MODULE}.modules():
    # Dropout is left out, as in inference. Batch norms of a problem take the statistics of their batch, as in training.
    _part.training = {{training}} and hasattr(_part, "track_running_stats")
    if _part.training and _part.track_running_stats:
        _part.track_running_stats = False
        _part.running_mean = _part.running_var = _part.num_batches_tracked = None
"""
Form = Literal["problem", "function", "module", "class", "method"]
"""Kind of a file's computation: a KernelBench problem, a function, a module, a class or function that makes one, or a
method of a module other than `forward`."""
Device = Literal["cpu", "meta"]
"""Device on which a reference makes tensors that nobody reads: with data or without."""


MAKING = re.compile(rf'with torch\.device\("(cpu|meta)"\):\n    {MODULE} = \w+\((\*get_init_inputs\(\))?\)\n')
"""Pattern of the code that makes a module from a class or function: its device, and settings if it takes any."""


def takes_module(reference: str) -> bool:
    """Return True if a class `ModelNew` answers an operator with this reference, which was made from a module."""
    return MAKING.search(reference.partition(f"\n{MARK}")[2]) is not None


def preparation(form: Form, target: str, *, real: bool = False, objects: str = "") -> str:
    """Return the code after the text of a file, both in its inspection and in the reference made from it.

    Args:
        form: Kind of the computation.
        target: Its name.
        real: True to make the module with data: constants in it, such as masks, stay in the reference. Otherwise its
            tensors have no data.
        objects: Code that makes the objects among the arguments; empty if there are none.
    """
    if form == "function":
        return f"\n{MARK}{_IMPORTS}_function = {target}\n{_FLATTENING}{objects}"
    owner, _, method = target.rpartition(".")
    made = {
        "problem": f"{target}(*get_init_inputs())",
        "class": f"{target}()",
        "module": target,
        "method": f"{owner}\n    {MODULE}.forward = {MODULE}.{method}",
    }[form]
    device = "cpu" if real else "meta"
    return (
        f'\n{MARK}{_IMPORTS}with torch.device("{device}"):\n    {MODULE} = {made}\n'
        f"{_MODES.format(training=form == 'problem')}{_FLATTENING}{objects}"
    )


def objects_of(form: Form, device: Device, example: int | None) -> str:
    """Return the code that makes the objects among the arguments, for `preparation`.

    Args:
        form: Kind of the computation.
        device: Device on which the example is made.
        example: Number of the example; None if there is only one.
    """
    maker = "get_inputs" if form == "problem" else EXAMPLES
    return f'{HELPERS}\n\nwith torch.device("{device}"):\n    {GIVEN} = _example({maker}(), {example})\n'


_EXPRESSION = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Attribute, ast.Subscript, ast.Call),
    *(ast.UnaryOp, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Load),
)


def _put_together(text: str) -> str:
    """Return the text of an argument if it only puts names and plain values together, which a reference may repeat.

    Raises:
        ValueError: If it is other code.
    """
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"'{text}' is no expression") from error
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    if not all(isinstance(node, _EXPRESSION) for node in nodes) or not called <= {FILLED, "torch.view_as_complex"}:
        raise ValueError(f"'{text}' is neither a name nor made of plain values and names")
    return text


Argument = Annotated[str, Field(max_length=16384), AfterValidator(_put_together)]
"""Text of an argument of a call: a name, a plain value such as `None`, or both put together, as in `(cos, sin, 2)`."""
_PART = r"[A-Za-z_][A-Za-z0-9_]*(\(\))?"
Target = Annotated[str, Field(pattern=rf"^({_PART}(\.{_PART})*)?$", max_length=256)]
"""Name of a function, a module or a method, such as `f`, `model.block` or `Model().encode`; empty if none is named."""


class ProblemQuestion(WireModel):
    """One file.

    Attributes:
        source: Text of the file.
        target: Name of the function or module in it; empty for a problem of KernelBench, or the only one.
        published: True to draw inputs as the file does; False to draw them as widely as any operator's.
    """

    source: Annotated[str, Field(min_length=1, max_length=49152)]
    target: Target = ""
    published: bool = False


class ProblemInspection(WireModel):
    """The description of a file's computation, or the reason why it cannot be evaluated.

    Attributes:
        reason: Reason why no operator can be made from it; empty if one can.
        line: Line of the file that the reason is about.
        form: Kind of the computation.
        target: Name of the function or module in the file.
        real: True if its module is made with data, because constants in it belong to the reference.
        objects: Device on which the reference makes objects among the arguments; None if there are none.
        example: Number of the example that has them; None if there is only one.
        inputs: Tensor arguments of the call, then the module's parameters and buffers.
        scalars: Number arguments of the call.
        outputs: Results of the call.
        arguments: Arguments of the call in order, as Python text over the names of `inputs` and `scalars`.
        keywords: Names of keyword arguments among `arguments`, by position.
        parameters: The module's names of parameters and buffers, such as `conv.weight`, by the input's name.
        shapes: Sizes of every named dimension, one row per example.
        ranges: Other sizes that the call accepts, found by trying.
        notes: Notes for readers of the operator, one sentence each.
        default_tf32: True if PyTorch's defaults compute an operation of it with TF32, as cuDNN's float32 convolutions.
    """

    reason: Reason = ""
    line: Annotated[int, Field(ge=1, le=10**6)] | None = None
    form: Form = "problem"
    target: Target = ""
    real: bool = False
    objects: Device | None = None
    example: Annotated[int, Field(ge=0, le=64)] | None = None
    inputs: Annotated[tuple[Input, ...], Field(max_length=MAX_INPUTS)] = ()
    scalars: Annotated[tuple[Scalar, ...], Field(max_length=32)] = ()
    outputs: Annotated[tuple[Output, ...], Field(max_length=16)] = ()
    arguments: Annotated[tuple[Argument, ...], Field(max_length=64)] = ()
    keywords: dict[int, Identifier] = {}
    parameters: dict[Identifier, Annotated[str, Field(pattern=r"^[A-Za-z0-9_.]+$", max_length=256)]] = {}
    shapes: Annotated[tuple[dict[Identifier, Size], ...], Field(max_length=64)] = ()
    ranges: dict[Identifier, tuple[Size, Size]] = {}
    notes: Annotated[tuple[Annotated[str, Field(max_length=1000)], ...], Field(max_length=64)] = ()
    default_tf32: bool = False
